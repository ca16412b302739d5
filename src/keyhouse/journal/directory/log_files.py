"""The files of a transparency log: public, written by a single process, and untrusted.

The parts of a log are in these files, or in a database that several coordinators share. Tiles grow
only at their end, and all writers of a tile write the same bytes.

Below ``log/<name of the log>`` are ``entries/`` and ``hashes/<level>/`` with the tiles, ``object/``
with the objects, and the file ``checkpoint``. Directories are never renamed, and nothing depends on
a sync of a directory, so this works under Gramine, too. A lost end of a file is written again,
because the journal has every leaf since its base.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from keyhouse.base.errors import UnavailableError
from keyhouse.journal.directory.disk import PUBLIC_LOG, Disk, off_loop
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.note import MOST_BYTES
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, narrowed

LARGEST_OBJECT: Final = 32 * 1024 * 1024
"""Maximum size in bytes of an object: larger than any manifest."""

_LARGEST_TILE: Final = WIDTH * (2 + 65_535)
_OBJECT: Final = r"[0-9a-f]{64}"


class Grown(msgspec.Struct, frozen=True):
    """A tile at its present width. Its first ``known`` bytes were written before."""

    tile: Tile
    whole: bytes
    known: int


class LogParts(Protocol):
    """The stored parts of a transparency log. Every method may raise ``UnavailableError``."""

    async def tile(self, tile: Tile) -> bytes:
        """Return the bytes of ``tile``, not verified. Raises an error if some are missing."""
        ...

    async def write(
        self, work: Sequence[Grown], unsynced: Sequence[Tile], *, durable: bool
    ) -> None:
        """Write the tiles in ``work``; with ``durable``, also sync these tiles.

        In any case, sync the tiles ``unsynced``, which were written before without a sync.
        """
        ...

    async def object(self, name: str) -> bytes | None:
        """Return the stored object ``name`` of the log, or None."""
        ...

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Write ``objects`` under their names, durably, before any part of the log names them."""
        ...

    async def objects(self) -> list[str]:
        """Return the names of the stored objects of the log."""
        ...

    async def write_checkpoint(self, note: bytes) -> None:
        """Write ``note``, the newest checkpoint, for readers that copy these parts."""
        ...

    async def remove(self) -> None:
        """Remove all parts of this log."""
        ...


def log_name(verifier: str) -> str:
    """Return the directory name of the log with the public key ``verifier``.

    No two logs share a name, including old logs, because each log has its own key.
    """
    return hashlib.sha256(verifier.encode()).hexdigest()[:32]


class LogFiles:
    """The files of the log ``name`` in a state directory. Calls block."""

    def __init__(self, state_directory: Path, name: str, disk: Disk) -> None:
        self.folder: Final = state_directory / PUBLIC_LOG / name
        self._top = state_directory
        self._disk = disk

    def tile(self, tile: Tile) -> bytes:
        """Return the bytes of ``tile``, not verified.

        Raises ``UnavailableError`` if the file is shorter.
        """
        raw = self._disk.read(self._path(tile), limit=_LARGEST_TILE) or b""
        try:
            return narrowed(raw, tile)
        except LogInvalidError:
            raise missing(f"tile/{tile.path}") from None

    def grow(self, tile: Tile, whole: bytes, known: int, *, durable: bool) -> None:
        """Extend the file of ``tile`` to ``whole``. Its first ``known`` bytes were written before.

        Later bytes are remains of a crash, and are cut off first. Without ``durable``, the file is
        not synced.
        """
        path = self._path(tile)
        self._make_directories(path.parent)
        self._disk.grow(path, whole, known, durable=durable)

    def sync(self, tile: Tile) -> None:
        """Make the file of ``tile`` durable."""
        self._disk.sync_file(self._path(tile))

    def object(self, name: str) -> bytes | None:
        """Return the stored object ``name`` of the log, or None.

        Raises ``UnavailableError`` if the hash of the stored bytes is not ``name``.
        """
        raw = self._disk.read(self._object(name), limit=LARGEST_OBJECT)
        if raw is not None and object_name(raw) != name:
            raise missing(f"object/{name}")
        return raw

    def put_objects(self, objects: Iterable[bytes]) -> None:
        """Write ``objects`` under their names, durably, before any leaf names them.

        A crash may truncate an object; its hash reveals that, and the next call writes it again.
        Existing objects are synced, too, because a killed process may not have synced them. All
        objects are written before the first sync, which then does most of the work for all.
        """
        found = {self._object(object_name(raw)): raw for raw in objects}
        if not found:
            return
        folders = _below(self._top, self.folder / "object")
        for folder in folders:
            if not os.path.lexists(folder):
                self._disk.make_directory(folder)
        for path, raw in found.items():
            if self._disk.read(path, limit=LARGEST_OBJECT) != raw:
                self._disk.remove(path)
                self._disk.write_new(path, raw)
        for path in found:
            self._disk.sync_file(path)
        for folder in (*reversed(folders), self._top):
            self._disk.sync_directory(folder)

    def objects(self) -> list[str]:
        """Return the names of the stored objects of the log."""
        folder = self.folder / "object"
        if not os.path.lexists(folder):
            return []
        return [name for name in self._disk.names(folder) if re.fullmatch(_OBJECT, name)]

    def checkpoint(self) -> bytes | None:
        """Return the last written checkpoint of the log; None if none was written."""
        return self._disk.read(self.folder / "checkpoint", limit=MOST_BYTES)

    def write_checkpoint(self, note: bytes) -> None:
        """Write ``note``, the newest checkpoint, for readers that copy these files."""
        self._make_directories(self.folder)
        self._disk.write(self.folder / "checkpoint", note)

    def remove(self) -> None:
        """Remove all files of the log, for a deployment that keeps nothing on the disk any more."""
        if not os.path.lexists(self.folder):
            return
        for folder, _, names in os.walk(self.folder, topdown=False):
            for name in names:
                self._disk.remove(Path(folder, name))
            self._disk.remove_directory(Path(folder))
        if not self._disk.names(self.folder.parent):  # no logs of earlier deployments
            self._disk.remove_directory(self.folder.parent)

    def _path(self, tile: Tile) -> Path:
        path = tile.full.path
        return self.folder / (path if tile.level == ENTRIES else f"hashes/{path}")

    def _object(self, name: str) -> Path:
        return self.folder / "object" / name

    def _make_directories(self, folder: Path) -> None:
        make_directories(self._disk, self._top, folder)


def make_directories(disk: Disk, top: Path, folder: Path) -> None:
    """Create ``folder`` and the missing directories between it and ``top``, durably."""
    for each in _below(top, folder):
        if not os.path.lexists(each):
            disk.make_directory(each)
            disk.sync_directory(each.parent)


def _below(top: Path, folder: Path) -> list[Path]:
    """Return the directories from below ``top`` down to ``folder``."""
    steps = folder.relative_to(top).parts
    return [top.joinpath(*steps[: end + 1]) for end in range(len(steps))]


def missing(part: str) -> UnavailableError:
    """Return the error for a missing ``part`` of the log, which the host has lost."""
    return UnavailableError(
        f"the transparency log in the state has lost the part {part}",
        hint="stop the coordinator, then restore the log from a mirror with keyhouse log restore",
    )


class DirectoryParts:
    """The files of a log in a state directory, used off the event loop."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files

    async def tile(self, tile: Tile) -> bytes:
        """Return the stored bytes of ``tile``."""
        return await off_loop(self._files.tile, tile)

    async def write(
        self, work: Sequence[Grown], unsynced: Sequence[Tile], *, durable: bool
    ) -> None:
        """Append the new bytes of the tiles in ``work`` to their files.

        With ``durable``, sync these files. In any case, sync the files of the tiles ``unsynced``,
        which were written before without a sync.
        """

        def write() -> None:
            for grown in work:
                self._files.grow(grown.tile, grown.whole, grown.known, durable=durable)
            for tile in unsynced:
                self._files.sync(tile)

        await off_loop(write)

    async def object(self, name: str) -> bytes | None:
        """Return the object of the log with the hash ``name``, or None."""
        return await off_loop(self._files.object, name)

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Store ``objects`` of the log under their names."""
        await off_loop(self._files.put_objects, objects)

    async def objects(self) -> list[str]:
        """Return the names of the stored objects of the log."""
        return await off_loop(self._files.objects)

    async def write_checkpoint(self, note: bytes) -> None:
        """Replace the stored checkpoint of the log by ``note``."""
        await off_loop(self._files.write_checkpoint, note)

    async def remove(self) -> None:
        """Remove the files of this log."""
        await off_loop(self._files.remove)
