"""Check and restore the transparency logs of a state directory without a running coordinator.

A check needs no key from outside. The first leaf names the public key of its log. The directory
name of the log is a hash of this key, and this key signs the last written checkpoint. So every file
up to the checkpoint is proven.

Lost files are restored from a mirror, which anyone may operate. A mirror and a state directory both
have a checkpoint, and all parts are verified against the newer of the two. A coordinator compares
the end of the log with its journal at its start.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.journal.directory.acquire import acquire
from keyhouse.journal.directory.disk import PUBLIC_LOG, Disk
from keyhouse.journal.directory.log_files import LogFiles, log_name
from keyhouse.journal.log_store import Growing
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, signed_checkpoint
from keyhouse.transparency.leaf import LogBegunLeaf, object_name, read_leaf
from keyhouse.transparency.log_reader import entries_after, objects_named
from keyhouse.transparency.mirrored_line import LINE_FILE, read_mirrored_line
from keyhouse.transparency.note import Checkpoint
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, narrowed
from keyhouse.transparency.tree import Frontier

Mirror = Callable[[str], bytes | None]
"""Returns the part of a mirror at a path; None if the mirror lacks the part."""


class LogSeen(NamedTuple):
    """The result of the check of the log ``name``; ``problem`` is the reason of a failure."""

    name: str
    size: int = 0  # number of leaves up to its checkpoint; 0 without a checkpoint
    objects: frozenset[str] = frozenset()  # the names of the objects
    problem: str = ""


def see_logs(directory: Path) -> Iterator[LogSeen]:
    """Yield the result of the check of each log. The coordinator must be stopped."""
    disk = Disk()
    if not os.path.lexists(directory / PUBLIC_LOG):
        return
    try:
        disk.check_directory(directory / PUBLIC_LOG)
        names = disk.names(directory / PUBLIC_LOG)
    except KeyhouseError as error:
        yield LogSeen("", problem=error.message)
        return
    for name in names:
        try:
            yield _see(LogFiles(directory, name, disk), name)
        except KeyhouseError as error:
            yield LogSeen(name, problem=error.message)


def _see(files: LogFiles, name: str) -> LogSeen:
    note = files.checkpoint()
    if note is None:  # the coordinator has never stopped cleanly: the journal has the end
        return LogSeen(name, objects=_objects(files))
    key = _key(files, name)
    checkpoint = signed_checkpoint(note, key)
    growing = Growing()

    def read(path: str) -> bytes:
        return files.tile(Tile.read(path.removeprefix("tile/")))

    for piece in entries_after(read, Frontier(), checkpoint.size, checkpoint.root):
        growing.extend(piece)
        _require_same(files, growing, partial=growing.size == checkpoint.size)
    return LogSeen(name, checkpoint.size, _objects(files))


def _key(files: LogFiles, name: str) -> VerifierKey:
    """Return the public key in the first leaf of the log.

    Raises ``LogInvalidError`` unless ``name``, the name of the log's directory, is the hash of this
    key (``log_name``).
    """
    (entry,) = bundled(files.tile(Tile(ENTRIES, 0, 1)), 1)
    begun = read_leaf(entry)
    if not isinstance(begun, LogBegunLeaf) or log_name(begun.key) != name:
        raise LogInvalidError(
            "the name of the log's directory is not the hash of the key in the first leaf"
        )
    return VerifierKey.read(begun.key)


def _require_same(files: LogFiles, growing: Growing, *, partial: bool) -> None:
    tiles = [tile for tile in growing.tiles() if partial or tile.width == WIDTH]
    for tile in tiles:
        if files.tile(tile) != growing.read(tile):
            raise LogInvalidError(f"tile/{tile.path} is damaged")
    growing.drop(tiles)


def _objects(files: LogFiles) -> frozenset[str]:
    """Return the names of the objects. Raises for an object with another hash than its name.

    No leaf names the quotes of the line (``transparency.line``), so this reads every object.
    """
    return frozenset(name for name in files.objects() if files.object(name) is not None)


class Restored(NamedTuple):
    """The result of a restore: the size of the log, and the written and missing parts."""

    size: int  # number of leaves
    tiles: int  # number of written tiles
    objects: int  # number of written objects
    missing: list[str]  # objects that neither the mirror nor the directory has
    entries: int  # entries in the mirror's line of the root; 0 without a line


def restore_log(directory: Path, verifier: str, mirror: Mirror) -> Restored:
    """Restore the log with the public key ``verifier`` from ``mirror``.

    ``directory``: the state directory. The coordinator must be stopped.

    Raises ``StoreLockedError``, ``LogInvalidError`` for a part that does not verify, and
    ``RefusedError`` if the mirror lacks a lost part.
    """
    disk = Disk()
    disk.check_directory(directory)
    lock = acquire(directory, disk)
    try:
        return _Restoring(LogFiles(directory, log_name(verifier), disk), verifier, mirror).run()
    except LogInvalidError as fault:
        hint = fault.hint or "use another mirror, or pass the right key of the log with --log-key"
        raise LogInvalidError(fault.message, hint=hint) from None
    finally:
        lock.release()


class _Restoring:
    def __init__(self, files: LogFiles, verifier: str, mirror: Mirror) -> None:
        self._files = files
        self._mirror = mirror
        self._key = VerifierKey.read(verifier)
        self._note = mirror("checkpoint") or b""
        self._mirror_checkpoint = self._checkpoint(self._note)
        self._tiles = 0
        self._objects = 0
        self._missing: list[str] = []

    def run(self) -> Restored:
        target = self._mirror_checkpoint
        local = self._local_checkpoint()
        if local is not None and local.size > target.size:
            target = local
        growing = Growing()
        for piece in entries_after(self._read, Frontier(), target.size, target.root):
            growing.extend(piece)
            for entry in piece:
                self._restore_objects(entry)
            self._write(growing)
        if target is self._mirror_checkpoint:
            self._files.write_checkpoint(self._note)
        entries = self._restore_line()
        return Restored(target.size, self._tiles, self._objects, self._missing, entries)

    def _restore_line(self) -> int:
        """Restore the proofs of the line of the root; return the number of entries in the mirror.

        Mirrors of older versions have no line. A manifest that gave a secret its first value is not
        an object. So a manifest without an object does not count as missing.
        """
        raw = self._mirror(LINE_FILE)
        if raw is None:
            return 0
        found = read_mirrored_line(raw)
        self._missing += (name for name in found.proofs() if not self._restore_object(name))
        for name in found.line.manifests:
            self._restore_object(name)
        return len(found.items)

    def _checkpoint(self, note: bytes) -> Checkpoint:
        return signed_checkpoint(note, self._key)

    def _local_checkpoint(self) -> Checkpoint | None:
        note = self._files.checkpoint()
        try:
            return None if note is None else self._checkpoint(note)
        except LogInvalidError:
            return None  # the host has damaged the checkpoint

    def _read(self, path: str) -> bytes:
        """Return the tile at ``path`` from the mirror, or from the directory for later leaves."""
        tile = Tile.read(path.removeprefix("tile/"))
        if not tile.is_in(self._mirror_checkpoint.size):
            try:
                return self._files.tile(tile)
            except KeyhouseError:
                raise RefusedError(
                    f"the mirror has {self._mirror_checkpoint.size} leaves, and the later leaves"
                    " are lost",
                    hint="use a newer mirror, or restore a backup",
                ) from None
        wide = (self._mirror_checkpoint.size >> (8 * max(tile.level, 0))) - tile.index * WIDTH
        mirror_tile = Tile(tile.level, tile.index, min(wide, WIDTH))
        raw = self._mirror(f"tile/{mirror_tile.path}")
        if raw is None:  # the mirror has grown since the read of its checkpoint
            raw = self._mirror(f"tile/{mirror_tile.full.path}")
        if raw is None:
            raise RefusedError(
                f"the mirror has no file tile/{mirror_tile.path}", hint="use another mirror"
            )
        return narrowed(raw, tile)

    def _write(self, growing: Growing) -> None:
        """Write each tile of ``growing`` that the state directory lacks, or has with other bytes.

        ``growing`` has the tiles of the verified leaves. Written complete tiles leave the memory.
        """
        tiles = list(growing.tiles())
        for tile in tiles:
            raw = growing.read(tile) or b""
            try:
                same = self._files.tile(tile) == raw
            except KeyhouseError:
                same = False
            if not same:
                self._files.grow(tile, raw, 0, durable=True)
                self._tiles += 1
        growing.drop(tiles)

    def _restore_objects(self, entry: bytes) -> None:
        for name in objects_named(read_leaf(entry), self._object):
            if not self._restore_object(name):
                self._missing.append(name)

    def _restore_object(self, name: str) -> bool:
        """Restore the object ``name``; return True if the directory has the object now."""
        if self._object(name) is not None:
            return True
        raw = self._mirror(f"object/{name}")
        if raw is None:
            return False
        if object_name(raw) != name:
            raise LogInvalidError(
                f"the content of the object {name} in the mirror does not match its name"
            )
        self._files.put_objects([raw])
        self._objects += 1
        return True

    def _object(self, name: str) -> bytes | None:
        try:
            return self._files.object(name)
        except KeyhouseError:  # the file has other bytes than its name says
            return None
