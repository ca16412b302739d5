"""Files that appear whole or not at all, and survive a crash.

The order is always the same: write a new file (0600), sync it, give it its name, sync it under that
name, sync the directory. Under Gramine the last does nothing, and no error tells so; the one before
makes the name durable on common file systems (docs/decisions/0032-under-gramine.md). No symbolic
link is followed to a file. Everything raises ``OSError``.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_Name = str | bytes | Path


def create(path: _Name, *, folder: int | None = None) -> BinaryIO:
    """Return the new file ``path``, open for writing, 0600 whatever the umask says.

    A relative path counts from the directory ``folder``, an open handle, or from the working
    directory. Raises ``FileExistsError`` if anything is there, be it a link that leads nowhere.
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
    """Give an open file or directory ``mode`` if it has another one.

    Only then: Gramine 1.9 ends with a fault when it is asked for a directory on an encrypted mount.
    """
    if stat.S_IMODE(os.fstat(handle).st_mode) != mode:
        os.fchmod(handle, mode)


def sync(file: BinaryIO) -> None:
    """Make what was written to ``file`` durable."""
    file.flush()
    os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Make the content of the file ``path``, written through other handles, durable."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename(source: Path, target: Path) -> None:
    """Rename the file ``source`` and sync it; durable after ``sync_directory``, if not before."""
    source.rename(target)
    sync_file(target)


def sync_directory(path: _Name, *, follow: bool = True) -> None:
    """Make the names in the directory ``path`` durable; without ``follow`` it may be no link."""
    handle = os.open(path, _DIRECTORY if follow else _DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(
    path: _Name, content: bytes, *, folder: int | None = None, durable: bool = True
) -> None:
    """Make a new file hold ``content``; nothing is left if that fails. Its name is not synced."""
    file = create(path, folder=folder)
    with _removed_on_failure(path, folder), file:
        file.write(content)
        if durable:
            sync(file)


def create_file(path: str, content: bytes) -> None:
    """Make the new file ``path`` hold ``content``: whole for every concurrent reader.

    Where files cannot be linked (as in an enclave) it is empty for a moment. Its name is not
    synced. Raises ``FileExistsError`` if anything is there.
    """
    beside = os.path.join(os.path.dirname(path), _beside())  # noqa: PTH118, PTH120 as it was given
    write_new(beside, content)
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:
        write_new(path, content)
    finally:
        os.unlink(beside)  # noqa: PTH108


def replace_file(path: Path, content: bytes, *, alone: bool = False, durable: bool = True) -> None:
    """Make ``path`` (0600) hold ``content``, durably and all of it, or leave it as it is.

    Without ``durable`` that is so for every reader, but a crash of the machine may leave anything.
    ``alone``: no other call writes this file now. What a killed process left beside it is removed
    then; without it, the temporary file has a name that no other call uses.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    beside = path.with_name(f"{path.name}.new" if alone else _beside())
    if alone:
        beside.unlink(missing_ok=True)
    write_new(beside, content, durable=durable)
    with _removed_on_failure(beside, None):
        if not durable:
            beside.rename(path)
            return
        rename(beside, path)
    sync_directory(path.parent)


def put_file(folder: int, name: bytes, content: bytes) -> None:
    """Make ``name`` in the open directory ``folder`` hold ``content``: whole, but not synced."""
    beside = _beside().encode("ascii")
    write_new(beside, content, folder=folder, durable=False)
    with _removed_on_failure(beside, folder):
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of changes to the file ``path``: ``<path>.lock``, made if it is missing."""
    handle = os.open(path.with_name(f"{path.name}.lock"), _LOCK, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _beside() -> str:
    return f".keyhouse-{os.urandom(8).hex()}"


@contextmanager
def _removed_on_failure(path: _Name, folder: int | None) -> Iterator[None]:
    try:
        yield
    except BaseException:  # also a signal to stop
        with suppress(OSError):
            os.unlink(path, dir_fd=folder)
        raise
