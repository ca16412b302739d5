"""Write the version and the build time into the source, and the version into further files.

The source is ``src/keyhouse/base/version.py``. Build tools and charts read static files, so the
files of ``PLACES`` also contain the version. A test compares each of these files with the source.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

VERSION_FORM: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
"""A released version: three numbers."""

SOURCE: Final = "src/keyhouse/base/version.py"

_FOUND: Final = r"[0-9]+\.[0-9]+\.[0-9]+"
_MICROSECONDS: Final = 1_000_000


class Place(NamedTuple):
    """A file with ``number`` versions. ``before`` matches the text before each version."""

    file: str
    before: str
    number: int

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of a version in this file: two groups, the text before and the version."""
        return re.compile(rf"({self.before})({_FOUND})(?![0-9.])", re.MULTILINE)


PLACES: Final = (
    Place("pyproject.toml", r'^version = "|keyhouse[a-z-]*==', 3),
    Place("simulation/pyproject.toml", r'^version = "|keyhouse[a-z-]*==', 2),
    Place("deploy/helm/keyhouse/Chart.yaml", r'^version: |^appVersion: "', 2),
    Place("docs/reference/openapi.json", r'"title": "Keyhouse Client API",\s*"version": "', 1),
    Place(
        "src/keyhouse/server/client_api/openapi.json",
        r'"title":"Keyhouse Client API","version":"',
        1,
    ),
)


def versions(tree: Path) -> list[tuple[str, str]]:
    """Return the file and the version of each place outside of the source.

    Raises ``ValueError`` if the number of versions in a file differs from ``PLACES``.
    """
    found = []
    for place in PLACES:
        texts = place.pattern.findall((tree / place.file).read_text(encoding="utf-8"))
        if len(texts) != place.number:
            raise ValueError(
                f"{place.file} has {len(texts)} versions; PLACES states {place.number}:"
                " correct tools/releasing/places.py"
            )
        found += [(place.file, version) for _, version in texts]
    return found


def read_source(tree: Path) -> tuple[str, int]:
    """Return the version, and the build time in seconds since 1970."""
    text = (tree / SOURCE).read_text(encoding="utf-8")
    (version,) = re.findall(rf'^VERSION = "({_FOUND})"$', text, re.MULTILINE)
    (time,) = re.findall(r"^BUILD_TIME = ([0-9_]+)$", text, re.MULTILINE)
    return version, int(time) // _MICROSECONDS


def write_version(tree: Path, version: str, build_time: int, moment: str) -> None:
    """Write ``version`` and ``build_time`` (s since 1970) into ``tree``.

    ``moment`` is the build time in ISO 8601. Raises ``ValueError`` if the version is not three
    numbers, and if the build time is before the present build time. An earlier build time would
    accept an earlier clock.
    """
    if not VERSION_FORM.fullmatch(version):
        raise ValueError(f"the version is {version!r}; use three numbers, such as 0.1.0")
    _, present = read_source(tree)
    if build_time < present:
        raise ValueError(
            f"the build time {build_time} is before the present {present}: correct this clock"
        )
    source = tree / SOURCE
    text = source.read_text(encoding="utf-8")
    text = re.sub(r'(?m)^VERSION = ".*"$', f'VERSION = "{version}"', text)
    time = f"{build_time * _MICROSECONDS:_}"
    pattern = r'(?m)^BUILD_TIME = .*\n"""[^,]*,'
    text, count = re.subn(pattern, f'BUILD_TIME = {time}\n"""{moment},', text)
    if count != 1:
        raise ValueError(f"{SOURCE} does not state BUILD_TIME and its moment on two lines")
    source.write_text(text, encoding="utf-8")
    for place in PLACES:
        file = tree / place.file
        text = file.read_text(encoding="utf-8")
        file.write_text(place.pattern.sub(rf"\g<1>{version}", text), encoding="utf-8")
    versions(tree)
