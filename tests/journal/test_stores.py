"""The duties of every store."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from support.peers.postgres import PostgresServer
from support.samples.state import DEK, STORE_ID

from keyhouse.journal.chain import PayloadKind, Sealer, key_check
from keyhouse.journal.store.memory import MemoryStore
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.protocol import (
    Batch,
    EpochStart,
    Position,
    Sealed,
    Store,
    StoreConflictError,
    first_link,
)
from keyhouse.journal.store.sqlite import SqliteStore

NOWHERE = Position(1, 0, first_link(STORE_ID))


class Run:
    """Records that follow ``after``; ``head`` is the place of the last record."""

    def __init__(self, after: Position, count: int, *, size: int = 10) -> None:
        sealer = Sealer(DEK, STORE_ID, after.epoch)
        self.after, self.head = after, after
        self.records: list[Sealed] = []
        for _ in range(count):
            sealed, self.head = sealer.seal(self.head, PayloadKind.EVENT, b"x" * size)
            self.records.append(sealed)

    def start(self) -> EpochStart:
        """Return the start of an epoch with these records."""
        epoch, first = self.after.epoch, self.after.sequence + 1
        check = key_check(DEK, STORE_ID, epoch)
        return EpochStart(STORE_ID, epoch, first, self.after.chain, check)


def next_epoch(after: Position) -> Position:
    return Position(after.epoch + 1, after.sequence, after.chain)


async def begun(store: Store, count: int, *, size: int = 10) -> Run:
    """Begin the first epoch with ``count`` records."""
    run = Run(NOWHERE, count, size=size)
    await store.begin_epoch(None, run.start(), run.records)
    return run


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = await PostgresStore.open(server.url(await server.database()), STORE_ID)
    else:
        opened = await SqliteStore.open(tmp_path / "journal.db")
    yield opened
    await opened.close()


async def everything(store: Store) -> list[Sealed]:
    found: list[Sealed] = []
    while batch := (await store.read(found[-1].sequence if found else 0)).records:
        found += batch
    return found


async def test_the_empty_store_ends_nowhere(store: Store) -> None:
    assert await store.head() is None
    assert await store.settle() is None
    assert await store.read(0) == Batch(None, ())


async def test_records_come_back_as_they_were(store: Store) -> None:
    run = await begun(store, 2)
    more = Run(run.head, 3)
    await store.append(run.head, more.records, more.head)
    assert await everything(store) == run.records + more.records
    assert await store.head() == await store.settle() == more.head
    assert (await store.read(3)).records == tuple(more.records[1:])
    assert (await store.read(3)).start == run.start()
    assert await store.read(5) == Batch(run.start(), (), more.head)


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 0},
        {"sequence": 1},
        {"sequence": 3},
        {"epoch": 2},
        {"epoch": 0},
        {"chain": bytes(32)},
        {"chain": first_link(STORE_ID)},
    ],
    ids=str,
)
async def test_a_write_elsewhere_than_at_the_end_is_a_conflict(
    store: Store, change: dict[str, object]
) -> None:
    run = await begun(store, 2)
    elsewhere = msgspec.structs.replace(run.head, **change)
    more, base = Run(elsewhere, 1), Run(next_epoch(elsewhere), 1)
    with pytest.raises(StoreConflictError):
        await store.append(elsewhere, more.records, more.head)
    with pytest.raises(StoreConflictError):
        await store.begin_epoch(elsewhere, base.start(), base.records)
    with pytest.raises(StoreConflictError):
        await store.begin_epoch(None, run.start(), run.records)
    assert await everything(store) == run.records
    assert await store.head() == run.head
    following = Run(run.head, 1)
    await store.append(run.head, following.records, following.head)


async def test_an_empty_store_takes_no_records_but_a_base(store: Store) -> None:
    run = Run(NOWHERE, 1)
    with pytest.raises(StoreConflictError):
        await store.append(NOWHERE, run.records, run.head)
    with pytest.raises(StoreConflictError):
        await store.begin_epoch(NOWHERE, run.start(), run.records)
    assert await store.head() is None


async def test_an_epoch_replaces_everything_and_continues_the_count(store: Store) -> None:
    run = await begun(store, 4)
    base = Run(next_epoch(run.head), 3)
    await store.begin_epoch(run.head, base.start(), iter(base.records))
    assert await everything(store) == base.records
    assert await store.head() == base.head
    assert base.head.sequence == 7
    assert (await store.read(0)).start == base.start()
    more = Run(base.head, 1)
    await store.append(base.head, more.records, more.head)
    assert await store.settle() == more.head


async def test_a_base_that_fails_changes_nothing(store: Store) -> None:
    def failing() -> Iterator[Sealed]:
        yield from base.records
        raise LookupError

    run = await begun(store, 2)
    base = Run(next_epoch(run.head), 2)
    with pytest.raises(LookupError):
        await store.begin_epoch(run.head, base.start(), failing())
    assert await everything(store) == run.records
    assert await store.head() == run.head
    more = Run(run.head, 1)
    await store.append(run.head, more.records, more.head)


async def test_batches_are_bounded_by_number_and_size(store: Store) -> None:
    run = await begun(store, 1)
    more = Run(run.head, 2500)
    await store.append(run.head, more.records, more.head)
    assert len((await store.read(0)).records) == 1000
    assert [each.sequence for each in await everything(store)] == list(range(1, 2502))


async def test_what_was_begun_before_settle_has_ended_with_it(store: Store) -> None:
    run = await begun(store, 1)
    more = Run(run.head, 200)
    left = asyncio.create_task(store.append(run.head, more.records, more.head))
    await asyncio.sleep(0)  # until the append has begun
    left.cancel()
    end = await store.settle()
    assert end in {run.head, more.head}
    assert len(await everything(store)) == end.sequence


async def test_closing_twice_is_allowed(store: Store) -> None:
    await store.close()
    await store.close()


async def test_sqlite_reads_large_records_in_small_batches(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    run = await begun(store, 12, size=1024 * 1024)
    assert len((await store.read(0)).records) < 6
    assert await everything(store) == run.records
    await store.close()


async def test_sqlite_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    run = await begun(store, 3)
    more = Run(run.head, 1)
    await store.append(run.head, more.records, more.head)
    await store.close()
    assert names(tmp_path) == ["journal.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    store = await SqliteStore.open(path)
    assert await everything(store) == run.records + more.records
    await store.close()


@pytest.mark.parametrize("reads", [False, True], ids=["at-once", "after-reading"])
async def test_sqlite_finds_the_end_of_a_file_that_it_has_not_written(
    tmp_path: Path,
    reads: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    run = await begun(store, 1)
    more = Run(run.head, 2500)
    await store.append(run.head, more.records, more.head)
    await store.close()
    store = await SqliteStore.open(tmp_path / "journal.db")
    if reads:
        await store.read(0)  # a part of the records
    last = Run(more.head, 1)
    await store.append(more.head, last.records, last.head)
    assert await store.head() == last.head
    await store.close()
