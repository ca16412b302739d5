"""States the changes of packages and of ``Infrastructures`` in the plan of an update."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from keyhouse.base.printable import quoted
from keyhouse.coordinator.core.policy import InForce, versions_in_force
from keyhouse.coordinator.update.compare import (
    FieldChange,
    as_text,
    change,
    differing,
    fields_that_differ,
    in_words,
)
from keyhouse.manifest import Manifest, Package
from keyhouse.wire.plan import Effect, PlanChange

_PACKAGES = "Packages"


def packages_in_force(state: InForce, old: Manifest) -> dict[str, Package]:
    """Return the packages with the versions in force, which package updates may have raised."""
    versions = versions_in_force(state)
    return {
        name: replace(package, security_version=versions[name])
        for name, package in old.packages.items()
    }


def package_changes(state: InForce, old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the changes of each package, compared with the versions in force."""
    for name, before, after in differing(packages_in_force(state, old), new.packages):
        if after is None:
            text = f"package {quoted(name)} is removed: no workload of it can activate any more"
            yield change(_PACKAGES, Effect.PACKAGE_REMOVED, name, text)
        elif before is None:
            text = f"package {quoted(name)} is added, with {contents(after)}"
            yield change(_PACKAGES, Effect.PACKAGE_ADDED, name, text)
        else:
            raised = name in state.security_versions
            yield from _fields(name, before, after, raised=raised)


def _fields(name: str, before: Package, after: Package, *, raised: bool) -> Iterator[PlanChange]:
    for field, was, becomes in _differing_fields(before, after):
        text = f"package {quoted(name)}: {_step(field, was, becomes)}"
        if "." in field and after.vm is not None and as_text(becomes) == "":
            text += ", so any value is admitted"
        if isinstance(was, int) and isinstance(becomes, int) and _is_minimum(field):
            if becomes < was:
                text += ", which is lower"
            if raised and field == "SecurityVersion":
                text += "; the version in force came from a package update"
        yield change(
            _PACKAGES,
            Effect.PACKAGE_CHANGED,
            name,
            text,
            field=field,
            before=was,
            after=becomes,
        )


def _is_minimum(field: str) -> bool:
    """Return whether a quote with a higher value than ``field`` is admitted as well."""
    return field == "SecurityVersion" or ".Minimum" in field


def _differing_fields(before: Struct, after: Struct) -> Iterator[FieldChange]:
    """Yield the changed fields, also those inside a VM's description; "" for an absent value."""
    for each in fields_that_differ(before, after):
        value = each.before if each.after is None else each.after
        if not isinstance(value, Struct):
            yield each
            continue
        empty = type(value)()
        for inner in _differing_fields(each.before or empty, each.after or empty):
            yield inner._replace(field=f"{each.field}.{inner.field}")


def contents(package: Package) -> str:
    """Return the fields with a value in ``package``, as text."""
    fields = _differing_fields(Package(), package)
    return ", ".join(f"{field} {in_words(value)}" for field, _, value in fields)


def _step(field: str, was: object, becomes: object) -> str:
    if as_text(was) == "":
        return f"{field} {in_words(becomes)} is named from now on"
    if as_text(becomes) == "":
        return f"{field} {in_words(was)} is no longer named"
    return f"{field} from {in_words(was)} to {in_words(becomes)}"


def raised_versions(state: InForce, versions: dict[str, int]) -> Iterator[PlanChange]:
    """Yield the versions raised by a package update. An equal version is not a change."""
    in_force = versions_in_force(state)
    for name, version in sorted(versions.items()):
        if in_force[name] != version:
            was = in_force[name]
            yield change(
                _PACKAGES,
                Effect.PACKAGE_CHANGED,
                name,
                f"package {quoted(name)}: {_step('SecurityVersion', was, version)};"
                " workloads with a lower one cannot activate any more",
                field="SecurityVersion",
                before=was,
                after=version,
            )


def infrastructure_changes(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the changed infrastructures. Nothing enforces infrastructures yet."""
    for name, before, after in differing(old.infrastructures, new.infrastructures):
        what, verb = Effect.INFRASTRUCTURE_CHANGED, "is changed"
        if before is None:
            what, verb = Effect.INFRASTRUCTURE_ADDED, "is added"
        elif after is None:
            what, verb = Effect.INFRASTRUCTURE_REMOVED, "is removed"
        text = f"infrastructure {quoted(name)} {verb}, which nothing enforces yet"
        yield change("Infrastructures", what, name, text)
