"""Write delivered files to the places in the manifest, and to no other place.

1. Every path is checked before the first file is written.
2. No symbolic link is followed, in any part of a path: each directory is opened relative to its
   parent. Another user with write access to a directory, or the owner of a mounted volume, cannot
   redirect a secret. Changing links during the write does not help such an attacker.
3. New directories have mode 0700, and files have mode 0600, regardless of the umask.
4. A file appears complete or not at all: it is written to a temporary file and renamed. An earlier
   file is replaced and never overwritten. So another link to it, or an open descriptor, does not
   see the new content.
5. If one file fails, or the program cannot be started, the written files are removed. A key that
   Gramine has received cannot be removed. The caller defers signals meanwhile. Otherwise a signal
   handler could raise an exception after the creation of a file, and before its record here. Then
   this file would stay.
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
_LONGEST_SHOWN: Final = 200  # characters of a path in an error, chosen: two lines of a terminal
_SURROUNDING: Final = "must name a file, without .. and without a slash at the end"
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEY: Final = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class FilePath(NamedTuple):
    """A path, split into its names: ``absolute``, or relative to the working directory."""

    path: str  # unchanged, from the manifest
    absolute: bool
    folders: tuple[bytes, ...]  # outermost first
    name: bytes

    @property
    def is_gramine_key(self) -> bool:
        """Whether a write to this path delivers a key to Gramine, for its encrypted files."""
        names = (*self.folders, self.name)
        in_keys = self.folders == _GRAMINE_KEYS or names == _GRAMINE_MAIN_KEY
        return self.absolute and in_keys


class ObstacleError(Exception):
    """A file cannot be written: its path has a link or special file, or Gramine refused a key."""


def write_files(
    files: Mapping[str, Secret], end_if_stopped: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """Write ``files``, contents by path, and return a function that removes them.

    After a failure, the written files are removed. Relative paths start at the working directory.
    ``end_if_stopped`` is called before each file, and its exception ends the writing. Raises
    ``LaunchRefusedError`` with the path.
    """
    done: list[FilePath] = []
    for place in places_of(files):
        try:
            end_if_stopped()
            _write(place, files[place.path].reveal())
        except BaseException as error:  # also ``SystemExit`` after a signal
            remove_files(done)
            if isinstance(error, OSError | ObstacleError):
                raise write_error(place, error) from None
            raise
        done.append(place)
    return lambda: remove_files(done)


def places_of(paths: Iterable[str]) -> tuple[FilePath, ...]:
    """Return ``paths`` in the order of their writes: keys for Gramine first, then by path.

    Raises ``LaunchRefusedError`` for a path without a file name, with "..", or in conflict with
    another path.
    """
    places = sorted(map(_place, paths), key=lambda place: (not place.is_gramine_key, place.path))
    seen: dict[tuple[bool, tuple[bytes, ...]], str] = {}
    for place in places:
        whole = (place.absolute, (*place.folders, place.name))
        if whole in seen:
            raise _path_error(place.path, f"equals the path {_quoted(seen[whole])}")
        seen[whole] = place.path
    for place in places:
        for depth in range(1, len(place.folders) + 1):
            above = (place.absolute, place.folders[:depth])
            if above in seen:
                raise _path_error(place.path, f"has the file {_quoted(seen[above])} as a directory")
    return tuple(places)


def _place(path: str) -> FilePath:
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        raise _path_error(path, "is not text") from None
    names = [name for name in raw.split(b"/") if name not in {b"", b"."}]
    last = raw.rpartition(b"/")[2]
    if not names or b"\0" in raw or b".." in names or last in {b"", b"."}:
        raise _path_error(path, _SURROUNDING)
    return FilePath(path, raw.startswith(b"/"), tuple(names[:-1]), names[-1])


def _write(place: FilePath, content: bytes) -> None:
    if place.is_gramine_key:
        write_gramine_key(place, content)
        return
    folder = open_folder(place, make=True)
    try:
        require_replaceable(folder, place.name)
        put_file(folder, place.name, content)
    finally:
        os.close(folder)


def write_gramine_key(place: FilePath, content: bytes) -> None:
    """Write the key ``content`` to Gramine's special file ``place``, in a single write.

    Gramine has created the file. Raises ``OSError``, and ``ObstacleError`` for a key of a wrong
    size.
    """
    handle = os.open(place.path, _KEY)
    try:
        written = os.write(handle, content)
    finally:
        os.close(handle)
    if written != len(content):
        raise ObstacleError(f"Gramine accepted {written} of the {len(content)} bytes of the key")


def open_folder(place: FilePath, *, make: bool) -> int:
    """Return a descriptor of the directory that contains the file ``place``.

    ``make``: create the missing directories of the path, for the owner only (mode 0700). Raises
    ``OSError``, and ``ObstacleError`` for a symbolic link in the path.
    """
    handle = os.open("/" if place.absolute else ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for depth, name in enumerate(place.folders):
        try:
            inner = _inner(handle, name, make=make)
        except OSError as error:
            if _is_link(handle, name):
                # The errors for links differ from system to system.
                above = b"/".join(place.folders[: depth + 1])
                raise ObstacleError(_link(("/" if place.absolute else "") + _text(above))) from None
            raise error from None
        finally:
            os.close(handle)
        handle = inner
    return handle


def _inner(above: int, name: bytes, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            _make_folder(above, name)
            return _set_private(_open_folder(above, name))
    return _open_folder(above, name)


def _make_folder(above: int, name: bytes) -> None:
    before = os.umask(0o077)  # with the inherited umask, opening it may fail
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    finally:
        os.umask(before)


def _open_folder(above: int, name: bytes) -> int:
    try:
        return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=above)
    except PermissionError:  # the directory may be traversed, but not listed
        return os.open(name, os.O_PATH | _FOLDER, dir_fd=above)


def _set_private(handle: int) -> int:
    set_mode(handle, 0o700)
    return handle


def require_replaceable(folder: int, name: bytes) -> None:
    """Raise ``ObstacleError`` unless ``name`` is absent or a regular file.

    ``folder``: the descriptor of its directory.
    """
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise ObstacleError("the path is a symbolic link, which is not followed")
        if not stat.S_ISREG(mode):
            raise ObstacleError("the path exists, but is not a regular file")


def remove_files(places: Sequence[FilePath]) -> None:
    """Remove the files ``places``, except keys that Gramine has received.

    An error for one of these files is ignored, because the caller reports a more important error.
    """
    for place in places:
        if place.is_gramine_key:
            continue
        with suppress(OSError, ObstacleError):
            folder = open_folder(place, make=False)
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
    return f"{path!a} is a symbolic link, which is not followed; the real path is {real}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def write_error(place: FilePath, error: OSError | ObstacleError) -> LaunchRefusedError:
    """Return the launcher's error for the file ``place``, which could not be written."""
    problem = os_reason(error) if isinstance(error, OSError) else str(error)
    hint = (
        "declare the key in Gramine's manifest: Gramine has files for declared keys only"
        if place.is_gramine_key
        else "name another path in the manifest, or make this path writable for this user only"
    )
    return LaunchRefusedError(
        f"the file {place.path[:200]!a} of the manifest cannot be written: {problem}",
        hint=hint,
    )


def _quoted(path: str) -> str:
    return ascii(path[:_LONGEST_SHOWN])


def _path_error(path: str, problem: str) -> LaunchRefusedError:
    return LaunchRefusedError(
        f"the file {_quoted(path)} of the manifest cannot be written: its path {problem}",
        hint="correct the path in the manifest",
    )


def put_file(folder: int, name: bytes, content: bytes) -> None:
    """Replace the content of the file ``name``, atomically, without a sync to the disk.

    ``folder``: the descriptor of its directory.
    """
    beside = name_beside().encode("ascii")
    write_new(beside, content, folder=folder, durable=False)
    with removed_on_failure(beside, folder):
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
