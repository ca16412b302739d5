"""Moves of a store from a directory into a database, and back: complete, or without effect."""

import hashlib
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.peers.postgres import PostgresServer
from support.samples.state import DEK, STORE_ID, open_storage, sealing_key_of, state_of

from keyhouse.journal import Journal, StoreDamagedError
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.sealing import Contents, EpochKey, KeyFile
from keyhouse.journal.epoch_reader import StoreEmptyError
from keyhouse.journal.offline.backup import NotEmptyError
from keyhouse.journal.offline.move_store import DatabaseInUseError, end_as_moved, move_in, move_out
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Position, StoreLockedError, SupersededError


async def filled(path: Path) -> None:
    """Leave a closed store with a base and events in ``path``."""
    storage = await open_storage(path)
    try:
        journal = await storage.establish(
            store_id=STORE_ID, dek=DEK, base=[b"base"], policy="ProductKey", recovery_index=b"index"
        )
        for number in range(3):
            await journal.append([f"event {number}".encode()])
        await storage.write_head()
    finally:
        await storage.close()


async def seal_again(path: Path) -> None:
    """Seal the key again: ``sealed_key`` differs, but opens the same store."""
    key = KeyFile(path, Disk(), "simulation", sealing_key_of("one"))
    contents = Contents((EpochKey(1, "ProductKey", DEK),), Position(1, 1, bytes(32)))
    await key.write(contents, STORE_ID)


@pytest.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(postgres.url(await postgres.database()))
    yield database
    await database.close()


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.name not in {"lock", "archive"})


async def test_an_attempt_that_ended_early_is_repeated(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    path, shared = tmp_path / "state", database
    await filled(path)
    left = await PostgresStore.open(shared.url, STORE_ID)  # from an earlier attempt
    await Journal.create(left, store_id=STORE_ID, dek=DEK, base=[b"other"])
    await left.close()
    moved = await move_in(path, shared)
    assert await shared.current() == STORE_ID
    assert await shared.recovery_index(STORE_ID, 1) == b"index"
    assert names(path) == ["sealed_key"]
    assert names(path / "archive" / moved.archive) == ["journal.db", "recovery_index", "sealed_key"]
    store = await PostgresStore.open(shared.url, STORE_ID)
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
    tmp_path: Path, database: PostgresDatabase, damage: str
) -> None:
    path, shared = tmp_path / "state", database
    await filled(path)
    with sqlite3.connect(path / "journal.db") as connection:
        connection.execute(damage)
    connection.close()
    before = names(path)
    with pytest.raises(StoreDamagedError):
        await move_in(path, shared)
    assert names(path) == before
    assert await shared.current() is None


async def trusted(place: Path) -> None:
    """Accept all files."""
    del place


async def test_a_move_back_that_ended_early_is_repeated_to_the_same_directory_only(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    path, shared = tmp_path / "state", database
    await filled(path)
    before = await state_of(path)
    moved = await move_in(path, shared)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(path / "archive" / moved.archive, elsewhere)
    for name in ("journal.db", "recovery_index"):
        (elsewhere / name).unlink()
    # The move out stops after the end in the database, and before the directory is valid.
    key = hashlib.sha256((path / "sealed_key").read_bytes()).hexdigest()
    await end_as_moved(shared, STORE_ID, moved.position, to=key)
    (elsewhere / "sealed_key").write_bytes(b"")
    with pytest.raises(StoreDamagedError):
        await move_out(shared, elsewhere, trusted)
    await seal_again(elsewhere)
    with pytest.raises(SupersededError):
        await move_out(shared, elsewhere, trusted)
    assert names(elsewhere) == ["sealed_key"]
    assert await move_out(shared, path, trusted) == STORE_ID
    assert await state_of(path) == before
    with pytest.raises(NotEmptyError):
        await move_out(shared, path, trusted)
    with pytest.raises(SupersededError):
        await PostgresStore.open(shared.url, STORE_ID)


async def test_a_move_back_that_is_refused_changes_nothing(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    path, shared = tmp_path / "state", database
    await filled(path)
    await move_in(path, shared)
    writer = await PostgresStore.open(shared.url, STORE_ID)
    journal, _ = await Journal.open(writer, store_id=STORE_ID, dek=DEK)

    async def written_meanwhile(place: Path) -> None:
        del place
        await journal.append([b"late"])

    with pytest.raises(StoreLockedError):
        await move_out(shared, path, written_meanwhile)
    await journal.append([b"later"])
    await writer.close()
    assert names(path) == ["sealed_key"]


async def test_a_database_with_a_store_takes_no_other(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    path, shared = tmp_path / "state", database
    await filled(path)
    await shared.make_current(bytes(16), before=None)
    before = names(path)
    with pytest.raises(DatabaseInUseError):
        await move_in(path, shared)
    assert names(path) == before


async def test_a_directory_without_a_store_is_refused(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    with pytest.raises(StoreEmptyError):
        await move_in(tmp_path / "state", database)
