"""Writes delivered files where the manifest says, and nowhere else.

1. Every path is checked before anything is written.
2. No symbolic link is followed, in any part of a path: each directory is opened from the one above
   it. Another user who may write to one of them, or the owner of a mounted volume, cannot redirect
   a secret, not even by changing links meanwhile.
3. Directories that are made are 0700, files 0600, whatever the umask says.
4. A file appears whole or not at all: it is written beside its place and renamed. What was there
   before is replaced, never written into: another link to it, or an open descriptor, sees nothing.
5. If one file fails, or the program cannot be started, those that were written are removed: a
   failed start leaves no secret. The caller defers signals meanwhile: an exception of a handler
   between the name of a file and its note here would leave that file.
"""

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from keyhouse.base.durable_files import name_beside, removed_on_failure, set_mode, write_new
from keyhouse.base.printable import os_reason
from keyhouse.base.secret import Secret
from keyhouse.launcher.errors import LaunchRefusedError

_GRAMINE_KEYS: Final = (b"dev", b"attestation", b"keys")
_GRAMINE_MAIN_KEY: Final = (b"dev", b"attestation", b"protected_files_key")
_LONGEST_SHOWN: Final = 200  # characters
_SURROUNDING: Final = "must lead to a file, without .., and not end in a slash"
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEY: Final = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


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


class _ObstacleError(Exception):
    """Something is there that must not be replaced."""


def write_files(
    files: Mapping[str, Secret], end_if_stopped: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """Write ``files``, path to content: all of them, or none stays. Return what removes them again.

    Relative paths start at the working directory. ``end_if_stopped`` is called before each file; an
    exception of it ends the writing. Raises ``LaunchRefusedError``, naming the path.
    """
    done: list[Place] = []
    for place in placed(files):
        try:
            end_if_stopped()
            _write(place, files[place.path].reveal())
        except BaseException as error:  # also the end that a signal asks for
            _remove(done)
            if isinstance(error, OSError | _ObstacleError):
                raise _refused(place, error) from None
            raise
        done.append(place)
    return lambda: _remove(done)


def placed(paths: Iterable[str]) -> tuple[Place, ...]:
    """Return the places of ``paths``, Gramine's keys first, the rest in order of their paths.

    Raises ``LaunchRefusedError`` for a path that names no file, goes upwards, or conflicts with
    another.
    """
    places = sorted(map(_place, paths), key=lambda place: (not place.is_gramine_key, place.path))
    seen: dict[tuple[bool, tuple[bytes, ...]], str] = {}
    for place in places:
        whole = (place.absolute, (*place.folders, place.name))
        if whole in seen:
            raise _misplaced(place.path, f"is the same as {_quoted(seen[whole])}")
        seen[whole] = place.path
    for place in places:
        for depth in range(1, len(place.folders) + 1):
            above = (place.absolute, place.folders[:depth])
            if above in seen:
                raise _misplaced(place.path, f"needs a directory where {_quoted(seen[above])} goes")
    return tuple(places)


def _place(path: str) -> Place:
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        raise _misplaced(path, "is not text") from None
    names = [name for name in raw.split(b"/") if name not in {b"", b"."}]
    last = raw.rpartition(b"/")[2]
    if not names or b"\0" in raw or b".." in names or last in {b"", b"."}:
        raise _misplaced(path, _SURROUNDING)
    return Place(path, raw.startswith(b"/"), tuple(names[:-1]), names[-1])


def _write(place: Place, content: bytes) -> None:
    if place.is_gramine_key:
        _hand_over(place, content)
        return
    folder = _folder(place, make=True)
    try:
        _require_replaceable(folder, place.name)
        put_file(folder, place.name, content)
    finally:
        os.close(folder)


def _hand_over(place: Place, content: bytes) -> None:
    """Give Gramine a key: its special file exists and takes the key in one write."""
    handle = os.open(place.path, _KEY)
    try:
        written = os.write(handle, content)
    finally:
        os.close(handle)
    if written != len(content):
        raise _ObstacleError(f"it took {written} of {len(content)} bytes")


def _folder(place: Place, *, make: bool) -> int:
    """Return a descriptor of the directory that ``place`` is in."""
    handle = os.open("/" if place.absolute else ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for depth, name in enumerate(place.folders):
        try:
            inner = _inner(handle, name, make=make)
        except OSError as error:
            if _is_link(handle, name):
                # The errors for links differ from system to system.
                above = b"/".join(place.folders[: depth + 1])
                raise _ObstacleError(
                    _link(("/" if place.absolute else "") + _text(above))
                ) from None
            raise error from None
        finally:
            os.close(handle)
        handle = inner
    return handle


def _inner(above: int, name: bytes, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            _make_folder(above, name)
            return _widened(_opened(above, name))
    return _opened(above, name)


def _make_folder(above: int, name: bytes) -> None:
    before = os.umask(0o077)  # the inherited one may deny us opening it
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    finally:
        os.umask(before)


def _opened(above: int, name: bytes) -> int:
    try:
        return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=above)
    except PermissionError:  # a directory that may be passed, not listed
        return os.open(name, os.O_PATH | _FOLDER, dir_fd=above)


def _widened(handle: int) -> int:
    set_mode(handle, 0o700)
    return handle


def _require_replaceable(folder: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise _ObstacleError("it is a symbolic link, and none is followed")
        if not stat.S_ISREG(mode):
            raise _ObstacleError("something else than a regular file is there")


def _remove(places: Sequence[Place]) -> None:
    """Remove what was written; what cannot be removed stays: the first failure is reported."""
    for place in places:
        if place.is_gramine_key:
            continue
        with suppress(OSError, _ObstacleError):
            folder = _folder(place, make=False)
            try:
                os.unlink(place.name, dir_fd=folder)
            finally:
                os.close(folder)


def _is_link(above: int, name: bytes) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    return False


def _link(path: str) -> str:
    real = ascii(os.path.realpath(path))
    return f"{path!a} is a symbolic link, and none is followed; the real path is {real}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _refused(place: Place, error: OSError | _ObstacleError) -> LaunchRefusedError:
    problem = os_reason(error) if isinstance(error, OSError) else str(error)
    hint = "name another place in the manifest, or make this one writable for this user only"
    if place.is_gramine_key:
        hint = "Gramine has this file only for keys that its manifest names"
    return LaunchRefusedError(
        f"the file {place.path[:200]!a} of the manifest cannot be written: {problem}",
        hint=hint,
    )


def _quoted(path: str) -> str:
    return ascii(path[:_LONGEST_SHOWN])


def _misplaced(path: str, problem: str) -> LaunchRefusedError:
    return LaunchRefusedError(
        f"the file {_quoted(path)} of the manifest cannot be written: its path {problem}",
        hint="correct it in the manifest",
    )


def put_file(folder: int, name: bytes, content: bytes) -> None:
    """Replace the content of ``name`` in the open directory ``folder``, atomically, not synced."""
    beside = name_beside().encode("ascii")
    write_new(beside, content, folder=folder, durable=False)
    with removed_on_failure(beside, folder):
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
