"""Where delivered files go: paths as the manifest has them, judged before anything is written."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from keyhouse.launcher.errors import LaunchRefused

__all__ = ["Place", "placed"]

_GRAMINE_KEYS: Final = (b"dev", b"attestation", b"keys")
_GRAMINE_MAIN_KEY: Final = (b"dev", b"attestation", b"protected_files_key")
_LONGEST_SHOWN: Final = 200
_SURROUNDING: Final = "must lead to a file, without .., and not end in a slash"


class Place(NamedTuple):
    """A path, cut into its names. ``absolute`` or below the working directory."""

    path: str  # as the manifest has it
    absolute: bool
    folders: tuple[bytes, ...]  # from the outermost
    name: bytes

    @property
    def is_gramine_key(self) -> bool:
        """Whether writing there hands a key to Gramine, which other files may need."""
        names = (*self.folders, self.name)
        in_keys = self.folders == _GRAMINE_KEYS or names == _GRAMINE_MAIN_KEY
        return self.absolute and in_keys


def placed(paths: Iterable[str]) -> tuple[Place, ...]:
    """Return the places of ``paths``, Gramine's keys first, the rest in order of their paths.

    Raises ``LaunchRefused`` for a path that leads to no file, goes upwards, or is in another's way.
    """
    places = sorted(map(_place, paths), key=lambda place: (not place.is_gramine_key, place.path))
    seen: dict[tuple[bool, tuple[bytes, ...]], str] = {}
    for place in places:
        whole = (place.absolute, (*place.folders, place.name))
        if whole in seen:
            raise _refused(place.path, f"is the same as {_quoted(seen[whole])}")
        seen[whole] = place.path
    for place in places:
        for depth in range(1, len(place.folders) + 1):
            above = (place.absolute, place.folders[:depth])
            if above in seen:
                raise _refused(place.path, f"needs a directory where {_quoted(seen[above])} goes")
    return tuple(places)


def _place(path: str) -> Place:
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        raise _refused(path, "is no text") from None
    names = [name for name in raw.split(b"/") if name not in {b"", b"."}]
    last = raw.rpartition(b"/")[2]
    if not names or b"\0" in raw or b".." in names or last in {b"", b"."}:
        raise _refused(path, _SURROUNDING)
    return Place(path, raw.startswith(b"/"), tuple(names[:-1]), names[-1])


def _quoted(path: str) -> str:
    return ascii(path[:_LONGEST_SHOWN])


def _refused(path: str, problem: str) -> LaunchRefused:
    return LaunchRefused(
        f"the file {_quoted(path)} of the manifest cannot be written: its path {problem}",
        hint="correct it in the manifest",
    )
