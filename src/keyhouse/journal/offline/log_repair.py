"""Transparency logs of state directories whose coordinator is stopped: checked, and restored.

Checking needs no key: the first leaf names the key of its log, the directory of a log is named
after that key, and the checkpoint that was written last is signed by it: so every file up to there
is proven.

What the host has lost is restored from a mirror that anybody may serve. Everything is proven
against the newer checkpoint of the mirror and of the state directory. The coordinator compares the
end of it with its journal when it starts.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.journal.directory.acquire import acquire
from keyhouse.journal.directory.disk import PUBLIC_LOG, Disk
from keyhouse.journal.directory.log_files import LogFiles, log_name
from keyhouse.transparency.checkpoint import Checkpoint
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.growing import Growing
from keyhouse.transparency.keys import VerifierKey, signed_checkpoint
from keyhouse.transparency.leaf import LogBegun, object_name, read_leaf
from keyhouse.transparency.mirrored_line import LINE_FILE, read_mirrored_line
from keyhouse.transparency.reading import entries_after, objects_named
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, narrowed
from keyhouse.transparency.tree import Frontier

Mirror = Callable[[str], bytes | None]
"""Returns the part of a mirror at this path; None: it has none."""


class LogSeen(NamedTuple):
    """What was found of the log in the directory ``name``; ``problem``: why it is not whole."""

    name: str
    size: int = 0  # leaves, up to its checkpoint; 0: it has none
    objects: frozenset[str] = frozenset()  # their names
    problem: str = ""


def see_logs(directory: Path) -> Iterator[LogSeen]:
    """Yield what is found of each log in the state directory, whose coordinator is stopped."""
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
    if note is None:  # it was never stopped cleanly: the journal has its end
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
    """Return the key that the first leaf names, which the directory is named after."""
    (entry,) = bundled(files.tile(Tile(ENTRIES, 0, 1)), 1)
    begun = read_leaf(entry)
    if not isinstance(begun, LogBegun) or log_name(begun.key) != name:
        raise LogInvalidError("the log is not the one that its directory is named after")
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
    """What the state directory has now."""

    size: int  # leaves
    tiles: int  # that were written
    objects: int  # that were written
    missing: list[str]  # objects that are nowhere
    entries: int  # of the line of the root in the mirror; 0: it has no line


def restore_log(directory: Path, verifier: str, mirror: Mirror) -> Restored:
    """Restore the log with the key ``verifier`` in a state directory whose coordinator is stopped.

    Raises ``StoreLockedError``, ``LogInvalidError`` for what does not verify, ``RefusedError`` if
    the mirror does not have what is missing.
    """
    disk = Disk()
    disk.check_directory(directory)
    lock = acquire(directory, disk)
    try:
        return _Restoring(LogFiles(directory, log_name(verifier), disk), verifier, mirror).run()
    finally:
        lock.release()


class _Restoring:
    def __init__(self, files: LogFiles, verifier: str, mirror: Mirror) -> None:
        self._files = files
        self._mirror = mirror
        self._key = VerifierKey.read(verifier)
        self._note = mirror("checkpoint") or b""
        self._there = self._checkpoint(self._note)
        self._tiles = 0
        self._objects = 0
        self._missing: list[str] = []

    def run(self) -> Restored:
        target = self._there
        here = self._here()
        if here is not None and here.size > target.size:
            target = here
        growing = Growing()
        for piece in entries_after(self._read, Frontier(), target.size, target.root):
            growing.extend(piece)
            for entry in piece:
                self._restore_objects(entry)
            self._write(growing)
        if target is self._there:
            self._files.write_checkpoint(self._note)
        entries = self._restore_line()
        return Restored(target.size, self._tiles, self._objects, self._missing, entries)

    def _restore_line(self) -> int:
        """Restore what proves the line of the root; return how many entries the mirror has of it.

        Mirrors of older versions have no line. A manifest that gave a secret its first value is not
        an object, so a manifest that is nowhere is not missing.
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

    def _here(self) -> Checkpoint | None:
        note = self._files.checkpoint()
        try:
            return None if note is None else self._checkpoint(note)
        except LogInvalidError:
            return None  # the host has damaged it

    def _read(self, path: str) -> bytes:
        """Return a part: from the mirror if it has all of it, else from the state directory."""
        tile = Tile.read(path.removeprefix("tile/"))
        if not tile.is_in(self._there.size):
            try:
                return self._files.tile(tile)
            except KeyhouseError:
                raise RefusedError(
                    f"the mirror has {self._there.size} leaves, and what came after is lost",
                    hint="use a newer mirror, or a backup",
                ) from None
        wide = (self._there.size >> (8 * max(tile.level, 0))) - tile.index * WIDTH
        there = Tile(tile.level, tile.index, min(wide, WIDTH))
        raw = self._mirror(f"tile/{there.path}")
        if raw is None:  # it has grown since its checkpoint was read
            raw = self._mirror(f"tile/{there.full.path}")
        if raw is None:
            raise RefusedError(f"the mirror has no tile/{there.path}", hint="use another mirror")
        return narrowed(raw, tile)

    def _write(self, growing: Growing) -> None:
        """Write the tiles that differ from those in the state directory."""
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
        """Restore an object; tell whether it is there now."""
        if self._object(name) is not None:
            return True
        raw = self._mirror(f"object/{name}")
        if raw is None:
            return False
        if object_name(raw) != name:
            raise LogInvalidError("an object has another hash than its name says")
        self._files.put_objects([raw])
        self._objects += 1
        return True

    def _object(self, name: str) -> bytes | None:
        try:
            return self._files.object(name)
        except KeyhouseError:  # other bytes are under its name
            return None
