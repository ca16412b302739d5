"""Compare a wheel with its own list of files, and an installed environment with a wheel.

The list is the file RECORD in the wheel. Its sums are SHA-256 in the URL alphabet of base64,
without padding. Source: the binary distribution format of packaging.python.org, "RECORD".
"""

import csv
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

_INSTALLER: Final = frozenset(
    {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}
)
"""Files of a ``.dist-info`` that an installer writes."""


def wheel_problems(wheel: Path) -> list[str]:
    """Return the differences between the files in ``wheel`` and its RECORD, as texts."""
    try:
        return list(_wheel_problems(wheel))
    except (BadZipFile, OSError, ValueError, KeyError) as fault:
        return [f"{wheel.name} cannot be read as a wheel: {fault}"]


def _wheel_problems(wheel: Path) -> Iterator[str]:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        record, sums = _record(archive)
        for name in names:
            if names.count(name) > 1:
                yield f"{wheel.name} contains {name} twice"
            elif name not in sums and name != record:
                yield f"{wheel.name} contains {name}, and its RECORD does not"
        for name, wanted in sums.items():
            if name not in names:
                yield f"{wheel.name} lacks {name} of its RECORD"
            elif name != record and _sum(archive.read(name)) != wanted:
                yield f"{wheel.name}: {name} differs from its RECORD"


def installed_problems(wheel: Path, packages: Path) -> list[str]:
    """Return the differences between ``wheel`` and its files in the folder ``packages``, as texts.

    The function compares the files in the wheel's RECORD. ``unlisted_files`` finds further files in
    the folder.
    """
    problems = []
    with ZipFile(wheel) as archive:
        record, sums = _record(archive)
        for name, wanted in sums.items():
            if name == record:
                continue
            try:
                content = (packages / name).read_bytes()
            except OSError:
                problems.append(f"{name} of {wheel.name} is not installed in {packages}")
                continue
            if _sum(content) != wanted:
                problems.append(f"{packages / name} differs from {wheel.name}")
    return problems


def files_of(wheel: Path) -> set[str]:
    """Return the names of the files in ``wheel``."""
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def unlisted_files(packages: Path, names: set[str], listed: set[str]) -> list[str]:
    """Return a text for each installed file that no wheel contains.

    The search covers the folders ``names`` of ``packages``. ``listed`` has the files in the wheels.
    Files of the installer are left out. Bytecode in ``__pycache__`` is left out, too: it differs
    between paths and interpreters.
    """
    found = []
    for name in sorted(names):
        for path in sorted((packages / name).rglob("*")):
            file = path.relative_to(packages).as_posix()
            if path.is_dir() or file in listed or path.parent.name == "__pycache__":
                continue
            if ".dist-info/" in file and path.name in _INSTALLER:
                continue
            found.append(f"{path} belongs to no wheel of the release")
    return found


def _record(archive: ZipFile) -> tuple[str, dict[str, str]]:
    """Return the name of RECORD in the wheel ``archive``, and the listed sum of each file.

    Raises ``ValueError``.
    """
    records = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
    if len(records) != 1:
        raise ValueError(f"the wheel has {len(records)} files named RECORD, expected 1")
    rows = csv.reader(archive.read(records[0]).decode("utf-8").splitlines())
    return records[0], {row[0]: row[1] for row in rows if row}


def _sum(content: bytes) -> str:
    encoded = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={encoded.decode('ascii')}"
