"""Copies the parts of transparency logs between a state directory and a database."""

import re
from pathlib import Path
from typing import Final

from keyhouse.base.printable import printable, quoted
from keyhouse.journal.directory.disk import PUBLIC_LOG, Disk, off_loop
from keyhouse.journal.directory.log_files import LARGEST_OBJECT
from keyhouse.journal.offline.log_files import all_parts, put_part
from keyhouse.journal.shared.log_parts import part_name
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import StoreDamagedError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.tiles import Tile


async def copy_log_in(disk: Disk, path: Path, database: PostgresDatabase) -> None:
    """Copy the logs in the state directory ``path`` to ``database``.

    Raises ``StoreDamagedError`` for a file that is not a part of a log: nothing else may be there.
    """
    for file in await off_loop(lambda: list(all_parts(disk, path))):
        found = _FILE.fullmatch(file)
        if found is None or not _is_part(found["part"]):
            raise StoreDamagedError(
                f"{printable(file)} is not a part of a transparency log", hint="move this file away"
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
                    f"the database has {quoted(part)} among the parts of a transparency log",
                    hint="restore the database from a backup",
                )
            raw = await database.log_part(log, part)
            if raw is not None:
                path = f"{PUBLIC_LOG}/{log.hex()}/{part}"
                await off_loop(put_part, disk, target, path, raw)


_OBJECT_PART: Final = re.compile(r"object/[0-9a-f]{64}", re.ASCII)


_FILE: Final = re.compile(rf"{PUBLIC_LOG}/(?P<log>[0-9a-f]{{32}})/(?P<part>.+)", re.ASCII)


def _is_part(name: str) -> bool:
    if name == "checkpoint" or _OBJECT_PART.fullmatch(name):
        return True
    try:
        return part_name(Tile.read(name.removeprefix("hashes/"))) == name
    except LogInvalidError:
        return False
