"""Store the parts of a transparency log in a database."""

from collections.abc import Sequence
from typing import Final

from keyhouse.journal.directory.log_files import Grown, missing
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.tiles import ENTRIES, Tile, narrowed

_OBJECT: Final = "object/"


class DatabaseParts:
    """The log ``name`` in a database. Its parts have the same names as files of a directory."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self._database = database
        self._log = bytes.fromhex(name)

    async def tile(self, tile: Tile) -> bytes:
        """Return the stored bytes of ``tile``."""
        raw = await self._database.log_part(self._log, part_name(tile)) or b""
        try:
            return narrowed(raw, tile)
        except LogInvalidError:
            raise missing(f"tile/{tile.path}") from None

    async def write(
        self, work: Sequence[Grown], unsynced: Sequence[Tile], *, durable: bool
    ) -> None:
        """Store the tiles in ``work``.

        ``unsynced`` and ``durable`` have no effect, because every change of the database is
        durable.
        """
        del unsynced, durable
        parts = {part_name(grown.tile): grown.whole for grown in work}
        await self._database.put_log_parts(self._log, parts)

    async def object(self, name: str) -> bytes | None:
        """Return the stored object ``name`` of the log."""
        raw = await self._database.log_part(self._log, _OBJECT + name)
        if raw is not None and object_name(raw) != name:
            raise missing(f"object/{name}")
        return raw

    async def put_objects(self, objects: Sequence[bytes]) -> None:
        """Store ``objects`` of the log under their names."""
        parts = {_OBJECT + object_name(raw): raw for raw in objects}
        await self._database.put_log_parts(self._log, parts)

    async def objects(self) -> list[str]:
        """Return the names of the stored objects of the log."""
        names = await self._database.log_part_names(self._log)
        return [name.removeprefix(_OBJECT) for name in names if name.startswith(_OBJECT)]

    async def write_checkpoint(self, note: bytes) -> None:
        """Replace the stored checkpoint of the log by ``note``."""
        await self._database.put_log_parts(self._log, {"checkpoint": note})

    async def remove(self) -> None:
        """Do nothing: a shared state is never erased."""


def part_name(tile: Tile) -> str:
    """Return the name of the part with ``tile`` in the database."""
    path = tile.full.path
    return path if tile.level == ENTRIES else f"hashes/{path}"
