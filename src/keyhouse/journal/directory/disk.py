"""The files of the state directory: their names, and durable operations.

``fence`` and ``step`` are called before each durable step. ``fence`` stops a superseded process,
and tests crash in ``step``. Symbolic links are not followed. Files that anyone else can read or
write are refused.

Small binary files have a frame: magic, format version, and SHA-256 of all bytes before the digest.
The digest has no key. A digest detects damage, and proves nothing.
"""

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from keyhouse.base import durable_files
from keyhouse.base.durable_files import without_links
from keyhouse.base.errors import BrokenError
from keyhouse.journal.store.protocol import (
    Fence,
    Step,
    StoreDamagedError,
    StoreFullError,
    StoreNewerError,
    StoreUnreadableError,
    no_fence,
    no_step,
)

LOCK: Final = "lock"  # names the process that holds the directory
SEALED_KEY: Final = "sealed_key"
INDEX: Final = "recovery_index"
NEXT_INDEX: Final = "recovery_index.next"  # for an epoch that is about to begin
JOURNAL: Final = "journal.db"
WAL: Final = f"{JOURNAL}-wal"
WAL_FILES: Final = (WAL, f"{JOURNAL}-shm")
ROLLBACK_JOURNAL: Final = f"{JOURNAL}-journal"  # Keyhouse never leaves one

STORE_FILES: Final = (SEALED_KEY, INDEX, NEXT_INDEX, JOURNAL, *WAL_FILES)
"""The files of a store."""

TOMBSTONE: Final = "tombstone"  # remains of an erased store
INCOMING: Final = "incoming"  # a store that replaces the present store
PUBLIC_LOG: Final = "log"  # the transparency log, public: a directory for each log
ARCHIVE: Final = "archive"  # replaced stores, a directory each

_OTHER_USERS = 0o077  # mode bits: group and others
_ZEROS = bytes(1024 * 1024)

_DIGEST_SIZE = 32  # bytes of SHA-256


class InsecureFileError(BrokenError):
    """Other users can access a file or directory, or its type or owner is wrong."""

    code = "insecure-file"


class Disk:
    """Reads and writes files (0600) and directories (0700) that this user owns."""

    def __init__(self, step: Step = no_step) -> None:
        self.step = step
        self.fence: Fence = no_fence  # until the directory is acquired

    def _begin(self, step: str) -> None:
        self.fence()
        self.step(step)

    def check_directory(self, path: Path) -> None:
        """Refuse ``path`` unless it is a directory that only this user can access."""
        with _named(path, "looked at"):
            found = path.lstat()
        _refuse(path, found, wanted=stat.S_ISDIR, word="directory")

    def check_file(self, path: Path) -> bool:
        """Refuse ``path`` unless it is a file that only this user can access; False if missing."""
        with _named(path, "looked at"):
            try:
                found = path.lstat()
            except FileNotFoundError:
                return False
        _refuse(path, found, wanted=stat.S_ISREG, word="file")
        return True

    def read(self, path: Path, *, limit: int) -> bytes | None:
        """Return the bytes of a checked file, None if missing; refuse more than ``limit`` bytes."""
        if not self.check_file(path):
            return None
        with _named(path, "read"), open(path, "rb", opener=without_links) as file:
            # Checked again, because the opened file may differ from the file checked above.
            found = os.fstat(file.fileno())
            _refuse(path, found, wanted=stat.S_ISREG, word="file")
            # Sized by the file, because a buffer as large as the limit may cost more than the read
            # itself.
            data = file.read(min(limit, found.st_size) + 1)
        if len(data) > limit:
            raise StoreDamagedError(f"{path.name} has more than {limit} bytes")
        return data

    def write(self, path: Path, data: bytes) -> None:
        """Write ``data`` to ``path`` atomically, through a temporary file in the same directory."""
        temporary = path.with_name(path.name + ".tmp")
        self.remove(temporary)
        with _named(path, "written"):
            self._begin(f"write {temporary.name}")
            with durable_files.create(temporary) as file:
                file.write(data)
                file.flush()
                self._begin(f"sync {temporary.name}")
                durable_files.sync(file)
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def write_new(self, path: Path, data: bytes) -> None:
        """Write the new file ``path``, which counts only after a later commit.

        So the write need not be atomic. The file is durable after ``sync_file``, its name after
        ``sync_directory``.
        """
        with _named(path, "written"):
            self._begin(f"write {path.name}")
            with durable_files.create(path) as file:
                file.write(data)

    def grow(self, path: Path, whole: bytes, known: int, *, durable: bool) -> None:
        """Extend the file ``path`` to the content ``whole``.

        The first ``known`` bytes were written before. Later bytes are cut off and written again. A
        shorter or missing file is written from its beginning. Without ``durable`` the file is not
        synced.
        """
        self._begin(f"grow {path.name}")
        with _named(path, "written"), open(path, "r+b", opener=_made_if_missing) as file:
            _refuse(path, os.fstat(file.fileno()), wanted=stat.S_ISREG, word="file")
            start = known if os.fstat(file.fileno()).st_size >= known else 0
            file.truncate(start)
            file.seek(start)
            file.write(whole[start:])
            file.flush()
            if durable:
                self._begin(f"sync {path.name}")
                durable_files.sync(file)
        if durable and known == 0:
            self.sync_directory(path.parent)

    def rename(self, source: Path, target: Path) -> None:
        """Rename the file ``source``; durable after ``sync_directory`` of both directories.

        Under Gramine the sync of a directory does nothing. So this call also syncs the file under
        its new name, which makes the name durable on common file systems.
        """
        self._begin(f"rename {source.name} to {target.name}")
        with _named(target, "written"):
            durable_files.rename(source, target)

    def sync_directory(self, path: Path) -> None:
        """Make the entries of the directory ``path`` durable: new, renamed and removed names."""
        self._begin(f"sync {path.name}/")
        with _named(path, "synced"):
            durable_files.sync_directory(path, follow=False)

    def sync_name(self, path: Path) -> None:
        """Make the name of ``path`` durable. The parent directory may be a symbolic link.

        If systemd makes the user (``DynamicUser=``), the directories in ``/var/lib`` are links.
        """
        self._begin(f"sync {path.parent.name}/")
        with _named(path.parent, "synced"):
            durable_files.sync_directory(path.parent)

    def sync_file(self, path: Path) -> None:
        """Make the content of the file ``path`` durable, after earlier writes without a sync."""
        self._begin(f"sync {path.name}")
        with _named(path, "synced"):
            durable_files.sync_file(path)

    def make_directory(self, path: Path) -> None:
        """Create the directory ``path`` (mode 0700), if it is missing.

        Raise an error if ``path`` exists and other users can access it.
        """
        self._begin(f"make {path.name}/")
        with _named(path, "created"):
            path.mkdir(mode=0o700, exist_ok=True)
        self.check_directory(path)

    def remove(self, path: Path) -> None:
        """Remove the file ``path``, which may be missing."""
        if os.path.lexists(path):
            self._begin(f"remove {path.name}")
            with _named(path, "removed"):
                path.unlink()

    def erase(self, path: Path) -> None:
        """Overwrite the file ``path`` with zeros, durably, and remove it.

        A missing file is ignored.
        """
        if not self.check_file(path):
            return
        self._begin(f"erase {path.name}")
        with _named(path, "erased"), open(path, "r+b", opener=without_links) as file:
            size = os.fstat(file.fileno()).st_size
            file.writelines(_ZEROS[: size - start] for start in range(0, size, len(_ZEROS)))
            durable_files.sync(file)
        self.remove(path)

    def remove_directory(self, path: Path) -> None:
        """Remove the directory ``path`` with all files, if present. Refuse inner directories."""
        if not os.path.lexists(path):
            return
        self.check_directory(path)
        for name in self.names(path):
            self.remove(path / name)
        self._begin(f"remove {path.name}/")
        with _named(path, "removed"):
            path.rmdir()

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        with _named(path, "read"):
            return sorted(entry.name for entry in path.iterdir())


def _made_if_missing(path: str, flags: int) -> int:
    return without_links(path, flags | os.O_CREAT)


def _refuse(path: Path, file: os.stat_result, *, wanted: Callable[[int], bool], word: str) -> None:
    if stat.S_ISLNK(file.st_mode):
        raise InsecureFileError(
            f"{path.name} is a symbolic link", hint=f"replace the link with the {word} itself"
        )
    if not wanted(file.st_mode):
        raise InsecureFileError(f"{path.name} is not a {word}", hint=f"move {path.name} away")
    if file.st_uid != os.geteuid():
        raise InsecureFileError(
            f"{path.name} belongs to user {file.st_uid}, not to user {os.geteuid()} of Keyhouse",
            hint=f"check that nobody changed the {word}, then chown it to Keyhouse's user",
        )
    mode = stat.S_IMODE(file.st_mode)
    if mode & _OTHER_USERS:
        right = "0700" if word == "directory" else "0600"
        raise InsecureFileError(
            f"{path.name} has mode {mode:04o}: other users can access it",
            hint=f"run chmod {right} on the {word}",
        )


@contextmanager
def _named(path: Path, what: str) -> Iterator[None]:
    """Turn an ``OSError`` into an error with the name of the file, without its directories.

    ``what``: the failed operation, in the text "... cannot be written".
    """
    try:
        yield
    except OSError as exc:
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFullError(
                f"the disk has no space left for {path.name}", hint="free some space on the disk"
            ) from None
        raise StoreUnreadableError(
            f"{path.name} cannot be {what}", hint="check the disk and the permissions"
        ) from None


P = ParamSpec("P")
T = TypeVar("T")


async def off_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of ``work``, run in a thread.

    A thread cannot be stopped. So a cancelled caller waits for the end of the thread. Otherwise the
    thread could still write into a released directory.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    finally:
        if not working.done():
            await asyncio.wait([working])


def size_of(path: Path) -> int:
    """Return the size of the file in bytes, for display only; 0 if unknown."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def framed(body: bytes) -> bytes:
    """Return the bytes of a file: ``body``, from magic and version on, and its SHA-256."""
    return body + hashlib.sha256(body).digest()


def unframed(
    raw: bytes,
    magic: bytes,
    version: int,
    *,
    name: str,
    damaged: Callable[[], StoreDamagedError],
    oldest: int | None = None,
) -> bytes:
    """Return the body of the file ``raw``: all bytes before its digest, from ``magic`` on.

    The format of the file must be at least ``oldest``, and at most ``version``. Without ``oldest``,
    the format must be ``version``.

    Raises the error that ``damaged`` returns for invalid bytes, or ``StoreNewerError`` with the
    ``name`` of the file.
    """
    body, digest = raw[:-_DIGEST_SIZE], raw[-_DIGEST_SIZE:]
    if len(body) <= len(magic) or not body.startswith(magic):
        raise damaged()
    if hashlib.sha256(body).digest() != digest:
        raise damaged()
    found = body[len(magic)]
    if found > version:
        raise StoreNewerError(
            f"{name} has format {found}, this version of Keyhouse reads {version}",
            hint="start the version of Keyhouse that wrote the file, or a later version",
        )
    if found < (version if oldest is None else oldest):
        raise damaged()
    return body
