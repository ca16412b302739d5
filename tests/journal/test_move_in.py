"""Moving the store of a directory into a database: whole, or nothing has changed."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.peers.postgres import PostgresServer
from support.samples.state import DEK, STORE_ID, open_home

from keyhouse.base.secret import Secret
from keyhouse.journal import Journal, StoreDamagedError, StoreEmptyError
from keyhouse.journal.shared.move_in import DatabaseInUseError, move_in
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase


async def filled(path: Path) -> None:
    """Leave a store with a base and events in ``path``, closed."""
    home = await open_home(path)
    try:
        journal = await home.establish(
            store_id=STORE_ID, dek=DEK, base=[b"base"], policy="ProductKey", recovery_index=b"index"
        )
        for number in range(3):
            await journal.append([f"event {number}".encode()])
        await home.write_head()
    finally:
        await home.close()


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[tuple[Secret, PostgresDatabase]]:
    url = postgres.url(await postgres.database())
    database = PostgresDatabase(url)
    yield url, database
    await database.close()


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.name not in {"lock", "archive"})


async def test_an_attempt_that_ended_early_is_repeated(
    tmp_path: Path, database: tuple[Secret, PostgresDatabase]
) -> None:
    path, (url, shared) = tmp_path / "state", database
    await filled(path)
    left = await PostgresStore.open(url, STORE_ID)  # of the attempt before
    await Journal.create(left, store_id=STORE_ID, dek=DEK, base=[b"other"])
    await left.close()
    moved = await move_in(path, url, shared)
    assert await shared.current() == STORE_ID
    assert await shared.recovery_index(STORE_ID, 1) == b"index"
    assert names(path) == ["sealed_key"]
    assert names(path / "archive" / moved.archive) == ["journal.db", "recovery_index", "sealed_key"]
    store = await PostgresStore.open(url, STORE_ID)
    _, replay = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    await store.close()
    assert (replay.base, replay.events) == ((b"base",), (b"event 0", b"event 1", b"event 2"))


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM record WHERE sequence = 2",
        "DELETE FROM record WHERE sequence = 1",
        "UPDATE record SET header = (SELECT header FROM record LIMIT 1) WHERE sequence = 2",
    ],
)
async def test_a_damaged_store_stays_where_it_is(
    tmp_path: Path, database: tuple[Secret, PostgresDatabase], damage: str
) -> None:
    path, (url, shared) = tmp_path / "state", database
    await filled(path)
    with sqlite3.connect(path / "journal.db") as connection:
        connection.execute(damage)
    connection.close()
    before = names(path)
    with pytest.raises(StoreDamagedError):
        await move_in(path, url, shared)
    assert names(path) == before
    assert await shared.current() is None


async def test_a_database_with_a_store_takes_no_other(
    tmp_path: Path, database: tuple[Secret, PostgresDatabase]
) -> None:
    path, (url, shared) = tmp_path / "state", database
    await filled(path)
    await shared.make_current(bytes(16), before=None)
    before = names(path)
    with pytest.raises(DatabaseInUseError):
        await move_in(path, url, shared)
    assert names(path) == before


async def test_a_directory_without_a_store_is_refused(
    tmp_path: Path, database: tuple[Secret, PostgresDatabase]
) -> None:
    url, shared = database
    with pytest.raises(StoreEmptyError):
        await move_in(tmp_path / "state", url, shared)
