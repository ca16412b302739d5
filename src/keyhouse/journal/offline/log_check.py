"""Checks the files of transparency logs in a state directory, without any key.

The first leaf names the key of its log, the directory of a log is named after that key, and the
checkpoint that was written last is signed by it: so every file up to there is proven.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.layout import PUBLIC_LOG
from keyhouse.journal.directory.log_files import LogFiles, log_name
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.growing import Growing
from keyhouse.transparency.keys import VerifierKey, signed_checkpoint
from keyhouse.transparency.leaf import LogBegun, read_leaf
from keyhouse.transparency.naming import objects_named
from keyhouse.transparency.reading import entries_after
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled
from keyhouse.transparency.tree import Frontier


class LogSeen(NamedTuple):
    """What was found of the log in the directory ``name``; ``problem``: why it is not whole."""

    name: str
    size: int = 0  # leaves, up to its checkpoint; 0: it has none
    objects: int = 0
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
    if note is None:
        return LogSeen(name)  # it was never stopped cleanly: the journal has its end
    key = _key(files, name)
    checkpoint = signed_checkpoint(note, key)
    growing, objects = Growing(), set[str]()

    def read(path: str) -> bytes:
        return files.tile(Tile.read(path.removeprefix("tile/")))

    for piece in entries_after(read, Frontier(), checkpoint.size, checkpoint.root):
        growing.extend(piece)
        for entry in piece:
            objects |= _objects(files, entry)
        _require_same(files, growing, partial=growing.size == checkpoint.size)
    return LogSeen(name, checkpoint.size, len(objects))


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


def _objects(files: LogFiles, entry: bytes) -> set[str]:
    """Return which objects of a leaf are there. Raises for one with another hash."""
    named = objects_named(read_leaf(entry), files.object)
    return {name for name in named if files.object(name) is not None}
