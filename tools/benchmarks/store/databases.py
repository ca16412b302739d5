"""The database of a benchmark: the user's database, or a temporary server with a standby."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.processes import TroubleError
from support.peers.postgres import PASSWORD, PostgresServer

from keyhouse.journal.shared.url import store_url
from keyhouse.journal.store.postgres_connection import connect

__all__ = ["Bare", "Database", "bare", "own_database"]

_TIMES: Final = 500


class Database(NamedTuple):
    """A database with the schema and without a store; ``url`` has no password."""

    url: str
    password_file: Path | None
    server: PostgresServer | None = None  # None: a database of the user

    @property
    def arguments(self) -> list[str]:
        """The options of `keyhouse serve` for this database."""
        file = self.password_file
        more = [] if file is None else ["--store-password-file", str(file.absolute())]
        return ["--store", self.url, *more]

    def also_at(self, standby: PostgresServer) -> "Database":
        """Return the database with the host of the standby as second host."""
        return self._replace(url=f"{self.url},{standby.folder}")


@contextmanager
def own_database(folder: Path) -> Iterator[Database]:
    """Run PostgreSQL in a temporary directory; raise ``TroubleError`` without PostgreSQL."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found and shutil.which("initdb") is None:
        raise TroubleError("PostgreSQL is not installed: give the URL of a database")
    password = folder / "database-password"
    password.touch(0o600)
    password.write_text(PASSWORD)
    with PostgresServer.running() as server:
        name = asyncio.run(server.database())
        yield Database(f"postgresql://keyhouse@/{name}?host={server.folder}", password, server)


class Bare(NamedTuple):
    """Times of the database without Keyhouse over one connection: medians in µs."""

    commit: float  # without a row
    round_trip: float  # of a query without a table


def bare(database: Database) -> Bare:
    """Measure the smallest possible commits and queries."""
    return asyncio.run(_bare(database))


async def _bare(database: Database) -> Bare:
    connection = await connect(store_url(database.url, database.password_file))
    commits, queries = [], []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        await connection.commit_something()
        committed = time.perf_counter()
        await connection.value("SELECT 1")
        commits.append(committed - begun)
        queries.append(time.perf_counter() - committed)
    await connection.close()
    return Bare(median(commits) * 1e6, median(queries) * 1e6)
