"""An uploaded update that only raises security versions of packages."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.findings import Findings, TooManyError, reported
from keyhouse.base.printable import at, quoted
from keyhouse.manifest.check import read_document
from keyhouse.manifest.document import ConfigDocument, ManifestDocument
from keyhouse.manifest.rules.packages import LARGEST
from keyhouse.manifest.rules.references import meant_by
from keyhouse.wire.package import Package


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
    read = read_document(raw)
    written = read.value
    if any(getattr(written, section) for section in _SECTIONS_OF_FULL_UPDATES):
        return None
    findings = Findings()
    if written.config != ConfigDocument():
        findings.refuse(("Config",), _UNCHANGEABLE, "upload a complete manifest")
    return PackageUpdate(written.packages, (*read.problems, *findings.problems))


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
    hint = "only a complete manifest can lower it again"
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
            problem = f"is new: there is no package {quoted(name)}"
            hint = meant_by(name, current, findings) or "upload a complete manifest"
            findings.refuse(("Packages", name), problem, hint)
        else:
            _check_version(name, package.security_version, current[name], findings)


def _check_fields(name: str, package: Package, findings: Findings) -> None:
    for field in msgspec.structs.fields(Package):
        given = getattr(package, field.name) != getattr(_NOTHING, field.name)
        if given and field.name != "security_version":
            hint = "keep SecurityVersion alone, or upload a complete manifest"
            findings.refuse(("Packages", name, field.encode_name), _UNCHANGEABLE, hint)


_NOTHING = Package()
_UNCHANGEABLE = "cannot be changed by a package update"


def _check_version(name: str, new: int | None, current: int | None, findings: Findings) -> None:
    here = ("Packages", name, "SecurityVersion")
    if new is None:
        findings.refuse(here, "is missing", "give the new version")
    elif current is None:
        problem = "cannot be added to a package that UniqueID or TDX identifies"
        findings.refuse(here, problem, "upload a complete manifest with the new identity")
    elif new < current:
        problem = f"is {new}, lower than {current}, which is in force"
        findings.refuse(here, problem, "give that version or a higher one")
