"""The check of an uploaded manifest, or of a package update, with every problem at once.

A package update only raises security versions of packages.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

import msgspec

from keyhouse.base.errors import Findings, InvalidError, Problem, TooManyError, reported
from keyhouse.base.printable import at, quoted
from keyhouse.manifest.convert import manifest_of
from keyhouse.manifest.document import ConfigDocument, ManifestDocument
from keyhouse.manifest.indexes import index_templates
from keyhouse.manifest.model import Manifest
from keyhouse.manifest.rules.access import check_recovery_keys, check_roles, check_users
from keyhouse.manifest.rules.config import check_config
from keyhouse.manifest.rules.marbles import check_marbles, check_tls
from keyhouse.manifest.rules.packages import LARGEST, check_infrastructures, check_packages
from keyhouse.manifest.rules.references import meant_by
from keyhouse.manifest.rules.renewal import check_renewals, problems_of_parameters
from keyhouse.manifest.rules.secrets import check_secrets, secret_types
from keyhouse.wire.json_decoder import Read, read
from keyhouse.wire.json_parser import UnreadableError
from keyhouse.wire.package import Package

MAX_BYTES = 16 * 1024 * 1024  # of one manifest


class Checked(msgspec.Struct, frozen=True):
    """A manifest that passed ``check``, with warnings for its author, sorted by place."""

    manifest: Manifest
    warnings: tuple[Problem, ...]


def check(raw: bytes, *, now: datetime) -> Checked:
    """Return the manifest in ``raw`` after a check of its JSON and of all rules of each section.

    ``now`` is UTC. Raises ``InvalidError`` with every problem (up to 1,000), sorted by place. If a
    part has the wrong JSON type, the rules are not applied, because their problems would mislead.
    The error then has wrong types, unknown fields and repeated keys. This function does not check
    whether a template can become a certificate.
    """
    written = read_document(raw)
    findings = Findings()
    with suppress(TooManyError):
        _apply_rules(written.value, now, findings)
    if written.problems or findings.problems:
        raise InvalidError("the manifest", reported((*written.problems, *findings.problems)))
    manifest = manifest_of(written.value, raw)
    if manifest.is_living and (problems := problems_of_parameters(manifest)):
        raise InvalidError("the manifest", problems)
    _check_initial_values(manifest)
    return Checked(manifest, tuple(sorted(set(findings.warnings))))


def _check_initial_values(manifest: Manifest) -> None:
    """Refuse a first value of a secret if a template with this secret cannot use the value.

    The template function ``string`` cannot use a value with a zero byte.
    """
    given = {
        name: definition.private.reveal()
        for name, definition in manifest.secrets.items()
        if definition.private is not None and not definition.type.is_certificate
    }
    if not given:
        return
    readers = index_templates(manifest).readers
    problems = [
        Problem(
            at("Secrets", name, "Private"),
            f"holds a zero byte, but {at(*where)} uses string, which cannot read zero bytes",
            "use hex or base64 in the template",
        )
        for name, content in sorted(given.items())
        for call, where in readers.get(name, {}).items()
        if call.function == "string" and 0 in content
    ]
    if problems:
        raise InvalidError("the manifest", problems)


def read_document(raw: bytes) -> Read[ManifestDocument]:
    """Return the decoded manifest ``raw``, with unknown fields and repeated keys as problems.

    Raises ``InvalidError`` for more than 16 MiB, and for a part of the wrong JSON type.
    """
    if len(raw) > MAX_BYTES:
        problem = f"has {len(raw)} bytes, must have at most {MAX_BYTES}"
        raise InvalidError("the manifest", [Problem("", problem, "shorten the manifest")])
    try:
        return read(raw, ManifestDocument)
    except UnreadableError as failure:
        raise InvalidError("the manifest", failure.problems) from failure


def _apply_rules(manifest: ManifestDocument, now: datetime, findings: Findings) -> None:
    check_packages(manifest.packages, findings)
    check_infrastructures(manifest.infrastructures, findings)
    check_marbles(manifest, secret_types(manifest), findings)
    check_tls(manifest, findings)
    check_users(manifest, now, findings)
    check_roles(manifest, findings)
    check_secrets(manifest, findings)
    check_recovery_keys(manifest.recovery_keys, findings)
    check_config(manifest, findings)
    renews = any(marble.renewal is not None for marble in manifest.marbles.values())
    if renews or manifest.config.trust is not None:
        check_renewals(manifest, findings)


class PackageUpdate(msgspec.Struct, frozen=True):
    """A package update as uploaded: new security versions of packages.

    The user needs a permission for each name in ``packages``.
    """

    packages: dict[str, Package]
    problems: tuple[Problem, ...]  # unknown fields, repeated keys, a Config: checked later


def read_package_update(raw: bytes) -> PackageUpdate | None:
    """Return the package update in ``raw``; None: ``raw`` is a complete manifest.

    A package update has content only in the sections ``Packages`` and ``Config``. Raises
    ``InvalidError`` if ``raw`` cannot be read.
    """
    document = read_document(raw)
    written = document.value
    if any(getattr(written, section) for section in _SECTIONS_OF_FULL_UPDATES):
        return None
    findings = Findings()
    if written.config != ConfigDocument():
        findings.refuse(("Config",), _UNCHANGEABLE, "upload a complete manifest")
    return PackageUpdate(written.packages, (*document.problems, *findings.problems))


_SECTIONS_OF_FULL_UPDATES = tuple(
    field for field in ManifestDocument.__struct_fields__ if field not in {"packages", "config"}
)


def check_package_update(
    update: PackageUpdate, current: Mapping[str, int | None]
) -> dict[str, int]:
    """Return the new ``SecurityVersion`` of each package in ``update``, sorted by name.

    ``current`` has the versions in force, None for packages without a version. An equal version is
    allowed, a lower version is not. Raises ``InvalidError`` with every problem.
    """
    findings = Findings()
    with suppress(TooManyError):
        _check_packages(update, current, findings)
    problems = reported((*update.problems, *findings.problems))
    if problems:
        raise InvalidError("the package update", problems)
    return {
        name: package.security_version
        for name, package in sorted(update.packages.items())
        if package.security_version is not None
    }


def warnings_of_versions(versions: Mapping[str, int]) -> tuple[Problem, ...]:
    """Return warnings for the author of an accepted package update.

    ``versions``: the new security version of each package.
    """
    problem = f"is over {LARGEST}, which no enclave can report: the package admits nobody"
    hint = "upload a complete manifest to lower the version again"
    return tuple(
        Problem(at("Packages", name, "SecurityVersion"), problem, hint)
        for name, version in sorted(versions.items())
        if version > LARGEST
    )


def _check_packages(
    update: PackageUpdate, current: Mapping[str, int | None], findings: Findings
) -> None:
    if not update.packages:
        findings.refuse(("Packages",), "is empty", "name at least one package")
    for name, package in update.packages.items():
        _check_fields(name, package, findings)
        if name not in current:
            problem = f"is new: the manifest in force has no package {quoted(name)}"
            hint = meant_by(name, current, findings) or "upload a complete manifest"
            findings.refuse(("Packages", name), problem, hint)
        else:
            _check_version(name, package.security_version, current[name], findings)


def _check_fields(name: str, package: Package, findings: Findings) -> None:
    for field in msgspec.structs.fields(Package):
        given = getattr(package, field.name) != getattr(_NOTHING, field.name)
        if given and field.name != "security_version":
            hint = "write only SecurityVersion, or upload a complete manifest"
            findings.refuse(("Packages", name, field.encode_name), _UNCHANGEABLE, hint)


_NOTHING = Package()
_UNCHANGEABLE = "cannot be changed by a package update"


def _check_version(name: str, new: int | None, current: int | None, findings: Findings) -> None:
    here = ("Packages", name, "SecurityVersion")
    if new is None:
        findings.refuse(here, "is missing", "write the new version")
    elif current is None:
        problem = "cannot be added to a package that UniqueID or TDX identifies"
        findings.refuse(here, problem, "upload a complete manifest with the new identity")
    elif new < current:
        problem = f"is {new}, must be {current} (the version in force) or higher"
        findings.refuse(here, problem, "write the version of the new build")
