"""The parts of a transparency log in a database, and how they move to a directory and back."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from keyhouse.journal.directory.disk import Disk, off_loop
from keyhouse.journal.directory.layout import PUBLIC_LOG
from keyhouse.journal.directory.log_files import LARGEST_OBJECT, missing
from keyhouse.journal.log_parts import Grown
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tiles import ENTRIES, Tile, narrowed

_OBJECT: Final = "object/"


class DatabaseParts:
    """The log ``name``, whose parts have the names of the files that a directory has."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self._database = database
        self._log = bytes.fromhex(name)

    async def tile(self, tile: Tile) -> bytes:
        """Return the bytes of ``tile``."""
        raw = await self._database.log_part(self._log, _path(tile)) or b""
        try:
            return narrowed(raw, tile)
        except LogInvalidError:
            raise missing(f"tile/{tile.path}") from None

    async def write(
        self, work: Sequence[Grown], unsynced: Sequence[Tile], *, durable: bool
    ) -> None:
        """Keep these tiles. Every change of a database is durable."""
        del unsynced, durable
        parts = {_path(tile): whole for tile, whole, _ in work}
        await self._database.put_log_parts(self._log, parts)

    async def object(self, name: str) -> bytes | None:
        """Return the object ``name``."""
        raw = await self._database.log_part(self._log, _OBJECT + name)
        if raw is not None and object_name(raw) != name:
            raise missing(f"object/{name}")
        return raw

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Keep ``objects`` under their names."""
        parts = {_OBJECT + object_name(raw): raw for raw in objects}
        await self._database.put_log_parts(self._log, parts)

    async def objects(self) -> list[str]:
        """Return the names of the objects."""
        names = await self._database.log_part_names(self._log)
        return [name.removeprefix(_OBJECT) for name in names if name.startswith(_OBJECT)]

    async def write_checkpoint(self, note: bytes) -> None:
        """Replace the checkpoint."""
        await self._database.put_log_parts(self._log, {"checkpoint": note})

    async def remove(self) -> None:
        """Keep it: a state that is shared is kept."""


async def copy_log_in(disk: Disk, path: Path, database: PostgresDatabase) -> None:
    """Copy the logs in the state directory ``path`` to ``database``."""
    for log, part in await off_loop(lambda: list(_files(disk, path))):
        raw = await off_loop(lambda file: disk.read(file, limit=LARGEST_OBJECT), path / log / part)
        if raw is not None:
            await database.put_log_parts(bytes.fromhex(Path(log).name), {part: raw})


async def copy_log_out(disk: Disk, database: PostgresDatabase, target: Path) -> None:
    """Copy the logs in ``database`` to the state directory ``target``, durably."""
    for log in await database.logs():
        for part in await database.log_part_names(log):
            raw = await database.log_part(log, part)
            file = target / PUBLIC_LOG / log.hex() / _checked(part)
            if raw is not None:
                await off_loop(_put, disk, target, file, raw)


def _checked(part: str) -> str:
    """Return the name of a file, which a server might make up. Raises ``UnavailableError``."""
    if part == "checkpoint" or (part.startswith(_OBJECT) and part.removeprefix(_OBJECT).isalnum()):
        return part
    tile = Tile.read(part.removeprefix("hashes/"))
    if _path(tile) != part:
        raise missing("part")
    return part


def _put(disk: Disk, target: Path, file: Path, raw: bytes) -> None:
    folders = [file.parent]
    while folders[-1].parent != target:
        folders.append(folders[-1].parent)
    for folder in reversed(folders):
        if not os.path.lexists(folder):
            disk.make_directory(folder)
    disk.write(file, raw)


def _files(disk: Disk, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the folder of each log, and the names of its files below that."""
    if not os.path.lexists(path / PUBLIC_LOG):
        return
    disk.check_directory(path / PUBLIC_LOG)
    for log in disk.names(path / PUBLIC_LOG):
        folder = path / PUBLIC_LOG / log
        for found, _, names in os.walk(folder):
            for name in names:
                if not name.endswith(".tmp"):
                    yield f"{PUBLIC_LOG}/{log}", str(Path(found, name).relative_to(folder))


def _path(tile: Tile) -> str:
    path = tile.full.path
    return path if tile.level == ENTRIES else f"hashes/{path}"
