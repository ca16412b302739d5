"""Store the parts of a transparency log in a database, and copy them to a directory and back."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from keyhouse.base.printable import printable
from keyhouse.journal.directory.disk import PUBLIC_LOG, Disk, off_loop
from keyhouse.journal.directory.log_files import LARGEST_OBJECT, Grown, all_parts, missing, put_part
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import StoreDamagedError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tiles import ENTRIES, Tile, narrowed

_OBJECT: Final = "object/"
_OBJECT_PART: Final = re.compile(r"object/[0-9a-f]{64}", re.ASCII)
_FILE: Final = re.compile(rf"{PUBLIC_LOG}/(?P<log>[0-9a-f]{{32}})/(?P<part>.+)", re.ASCII)


class DatabaseParts:
    """The log ``name``. The names of its parts are the file names in a directory."""

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
        """Store the tiles. Every change of a database is durable."""
        del unsynced, durable
        parts = {_path(grown.tile): grown.whole for grown in work}
        await self._database.put_log_parts(self._log, parts)

    async def object(self, name: str) -> bytes | None:
        """Return the object ``name``."""
        raw = await self._database.log_part(self._log, _OBJECT + name)
        if raw is not None and object_name(raw) != name:
            raise missing(f"object/{name}")
        return raw

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Store ``objects`` under their names."""
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
        """Do nothing: a shared state is never erased."""


async def copy_log_in(disk: Disk, path: Path, database: PostgresDatabase) -> None:
    """Copy the logs in the state directory ``path`` to ``database``.

    Raises ``StoreDamagedError`` for a file that is not a part of a log: nothing else may be there.
    """
    for file in await off_loop(lambda: list(all_parts(disk, path))):
        found = _FILE.fullmatch(file)
        if found is None or not _is_part(found["part"]):
            raise StoreDamagedError(
                f"{printable(file)} is not a part of a transparency log", hint="move it away"
            )
        raw = await off_loop(lambda part: disk.read(part, limit=LARGEST_OBJECT), path / file)
        if raw is not None:
            await database.put_log_parts(bytes.fromhex(found["log"]), {found["part"]: raw})


async def copy_log_out(disk: Disk, database: PostgresDatabase, target: Path) -> None:
    """Copy the logs in ``database`` to the state directory ``target``, durably.

    Raises ``StoreDamagedError`` for a name that is not the name of a part: the server invented it.
    """
    for log in await database.logs():
        for part in await database.log_part_names(log):
            if not _is_part(part):
                raise StoreDamagedError(
                    "the database has something else among the parts of a transparency log",
                    hint="restore the database from a backup",
                )
            raw = await database.log_part(log, part)
            if raw is not None:
                path = f"{PUBLIC_LOG}/{log.hex()}/{part}"
                await off_loop(put_part, disk, target, path, raw)


def _is_part(name: str) -> bool:
    if name == "checkpoint" or _OBJECT_PART.fullmatch(name):
        return True
    try:
        return _path(Tile.read(name.removeprefix("hashes/"))) == name
    except LogInvalidError:
        return False


def _path(tile: Tile) -> str:
    path = tile.full.path
    return path if tile.level == ENTRIES else f"hashes/{path}"
