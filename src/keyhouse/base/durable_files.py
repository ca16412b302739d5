"""Writes files atomically and durably, and opens files that an untrusted user may have placed.

The steps of a write are always the same: write a new file with mode 0600, sync the file, rename
the file, sync the renamed file, sync the directory. Under Gramine the sync of a directory does
nothing and reports no error. There the sync of the renamed file makes the name durable on common
file systems (docs/decisions/0032-under-gramine.md). No write follows a symbolic link to a file. All
functions raise ``OSError``.

``without_waiting`` and ``without_links`` are openers for ``open(..., opener=...)``. ``os.open`` and
``os.fdopen`` would open the same file, but leave the handle open if the file is a directory.
``open`` closes it.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_Name = str | bytes | Path


def create(path: _Name, *, folder: int | None = None) -> BinaryIO:
    """Create the file ``path`` with mode 0600 under any umask, and return it open for writing.

    A relative path starts at ``folder``, the open handle of a directory; None: at the working
    directory. Raises ``FileExistsError`` if the name exists, even as a dangling link.
    """
    file = os.fdopen(os.open(path, _NEW, 0o600, dir_fd=folder), "wb")
    try:
        set_mode(file.fileno(), 0o600)
    except OSError:
        file.close()
        os.unlink(path, dir_fd=folder)
        raise
    return file


def set_mode(handle: int, mode: int) -> None:
    """Set the mode of an open file or directory, unless the mode is already set.

    Gramine 1.9 crashes when it changes the mode of a directory on an encrypted mount. So a mode
    that is already set is not set again.
    """
    if stat.S_IMODE(os.fstat(handle).st_mode) != mode:
        os.fchmod(handle, mode)


def sync(file: BinaryIO) -> None:
    """Make the written content of ``file`` durable."""
    file.flush()
    os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Make the content of the file ``path`` durable after writes through other handles."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename(source: Path, target: Path) -> None:
    """Rename the file ``source``, and sync the file under its new name.

    The name becomes durable only with a later ``sync_directory``.
    """
    source.rename(target)
    sync_file(target)


def sync_directory(path: _Name, *, follow: bool = True) -> None:
    """Make the names of files in the directory ``path`` durable.

    Without ``follow``, refuse a ``path`` that is a symbolic link.
    """
    handle = os.open(path, _DIRECTORY if follow else _DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(
    path: _Name, content: bytes, *, folder: int | None = None, durable: bool = True
) -> None:
    """Write ``content`` to a new file. After an error, no part of the file stays.

    Without ``durable``, the content is not synced. The file's name is never synced here: see
    ``sync_directory``. ``folder``: as in ``create``.
    """
    file = create(path, folder=folder)
    with removed_on_failure(path, folder), file:
        file.write(content)
        if durable:
            sync(file)


def replace_file(path: Path, content: bytes, *, alone: bool = False, durable: bool = True) -> None:
    """Replace the content of ``path`` (mode 0600) completely and durably, or change nothing.

    Without ``durable``, a crash of the machine may leave any content; readers before the crash see
    the complete old or new content. ``alone``: the caller is the only writer of this file. Then the
    temporary file has a fixed name, so a killed process leaves no second temporary file. Otherwise
    the temporary name is random.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    beside = path.with_name(f"{path.name}.new" if alone else name_beside())
    if alone:
        beside.unlink(missing_ok=True)
    write_new(beside, content, durable=durable)
    with removed_on_failure(beside, None):
        if not durable:
            beside.rename(path)
            return
        rename(beside, path)
    sync_directory(path.parent)


def name_beside() -> str:
    """Return a new random name for a temporary file, to be renamed in the same directory."""
    return f".keyhouse-{os.urandom(8).hex()}"


@contextmanager
def removed_on_failure(path: _Name, folder: int | None) -> Iterator[None]:
    """Remove the new file ``path`` if the block raises. ``folder``: as in ``create``."""
    try:
        yield
    except BaseException:  # also a signal to stop
        with suppress(OSError):
            os.unlink(path, dir_fd=folder)
        raise


def without_waiting(path: str, flags: int) -> int:
    """Open ``path``, and return the handle. Do not wait for the other end of a FIFO.

    A new file has the mode 0600.

    ``flags``: as for ``os.open``.
    """
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def without_links(path: str, flags: int) -> int:
    """Open ``path`` like ``without_waiting``, but refuse a ``path`` that is a symbolic link.

    Links among the directories of ``path`` are followed.
    """
    return without_waiting(path, flags | os.O_NOFOLLOW)
