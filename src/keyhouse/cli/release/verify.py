"""Verify files of a release in a folder with ``SHA256SUMS``, and an environment against its wheels.

Order of the checks:

1. The signature over ``SHA256SUMS``, under a key that the caller names. Without the signature, the
   sums prove only that a transfer was complete: anyone who replaces a file also replaces its sum.
2. The sum of each named file. If ``SHA256SUMS`` is named, these are all listed files. Then the
   folder may have no further file, because installers choose among the wheels of a folder.
3. The content of each wheel against the wheel's own list.
4. Installed files against the wheels.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.cli.release.sums import (
    NOTE,
    SUMS,
    UNLISTED,
    digest,
    read_bounded,
    read_sums,
    signed_version,
)
from keyhouse.cli.release.wheel import files_of, installed_problems, unlisted_files, wheel_problems

NO_PROBLEM: Final = ""


class Check(msgspec.Struct, frozen=True):
    """A check of a release. ``subject`` is the checked file, and ``result`` a text for people."""

    subject: str
    result: str
    passed: bool


def verify(
    files: Iterable[Path],
    key: str | None,
    environment: Path | None = None,
    expected_version: str | None = None,
) -> Iterator[Check]:
    """Verify ``files``: files of releases, or ``SHA256SUMS`` for all files; yield each check.

    ``key`` is a verifier key (C2SP signed-note); with None, no signature is verified.
    ``environment`` is a folder of installed packages to compare with the verified wheels, or None.
    ``expected_version`` is the version for the signature to state; None accepts each version.
    Raises ``RefusedError`` for unreadable sums and an invalid signature.
    """
    wheels: list[Path] = []
    for folder, names in _by_folder(files).items():
        raw = read_bounded(folder / SUMS)
        sums = read_sums(raw)
        if key is not None:
            version = signed_version(raw, read_bounded(folder / NOTE), key)
            name = key.partition("+")[0]
            passed = expected_version in (None, version)
            expected = "" if passed else f"; expected {expected_version}"
            result = f"version {version}, signed by {name}{expected}"
            yield Check(f"{folder / NOTE}", result, passed=passed)
        wanted = sorted(names - UNLISTED) if SUMS not in names else sorted(sums)
        if SUMS in names:
            yield from _further_files(folder, sums)
        for file in wanted:
            path = folder / file
            problem = _problem(path, sums.get(file))
            yield Check(str(path), problem or "matches its sum", passed=not problem)
            if path.suffix == ".whl" and not problem:
                yield from _checks(str(path), "matches its RECORD", wheel_problems(path))
                wheels.append(path)
    if environment is not None:
        yield from _environment(wheels, environment)


def _by_folder(files: Iterable[Path]) -> Mapping[Path, set[str]]:
    found: dict[Path, set[str]] = {}
    for file in files:
        found.setdefault(file.parent, set()).add(file.name)
    if not found:
        raise RefusedError(
            "the command line names no file to verify",
            hint=f"pass {SUMS}, or files in the same folder",
        )
    return found


def _further_files(folder: Path, sums: Mapping[str, str]) -> Iterator[Check]:
    for path in sorted(folder.iterdir()):
        if path.name not in sums and path.name not in UNLISTED:
            yield Check(str(path), f"is not in {SUMS}", passed=False)


def _problem(path: Path, wanted: str | None) -> str:
    """Compare the file ``path`` with its sum ``wanted``; return the problem as text, or "".

    None for ``wanted`` means that ``SHA256SUMS`` does not list the file.
    """
    try:
        found = digest(path)
    except OSError:
        return f"cannot be read; {SUMS} {'lists it' if wanted else 'does not list it'}"
    if wanted is None:
        return f"is not in {SUMS}"
    return NO_PROBLEM if found == wanted else f"has the sum {found}; {SUMS} states {wanted}"


def _environment(wheels: list[Path], packages: Path) -> Iterator[Check]:
    """Compare the distributions of Keyhouse in the folder ``packages`` with ``wheels``.

    Yield each check.
    """
    installed = {
        found[1]: path
        for path in sorted(packages.glob("keyhouse*.dist-info"))
        if (found := re.match(r"(keyhouse[a-z_]*-[0-9.]+)\.dist-info$", path.name))
    }
    if not installed:
        yield Check(str(packages), "has no distribution of Keyhouse", passed=False)
        return
    by_name = {"-".join(wheel.name.split("-")[:2]): wheel for wheel in wheels}
    used, listed = [], set[str]()
    for name in installed:
        if name not in by_name:
            yield Check(f"{packages}: {name}", "has no verified wheel to compare", passed=False)
            continue
        used.append(by_name[name])
        listed |= files_of(by_name[name])
    for wheel in used:
        yield from _checks(
            f"{packages}: {wheel.name}",
            "installed as in the wheel",
            installed_problems(wheel, packages),
        )
    folders = {path.name for path in installed.values()}
    folders |= {each for each in ("keyhouse", "keyhouse_simulation") if (packages / each).is_dir()}
    further = unlisted_files(packages, folders, listed)
    yield from _checks(
        str(packages), "no further file of Keyhouse (bytecode is not compared)", further
    )


def _checks(subject: str, passed: str, problems: Iterable[str]) -> Iterator[Check]:
    found = list(problems)
    yield from (Check(subject, problem, passed=False) for problem in found)
    if not found:
        yield Check(subject, passed, passed=True)
