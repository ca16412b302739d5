"""What every store must do."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.samples.state import DEK, STORE_ID

from keyhouse.journal.chain import Kind, Position, Sealer, first_link
from keyhouse.journal.keys import key_check
from keyhouse.journal.store.memory import MemoryStore
from keyhouse.journal.store.protocol import EpochStart, Head, Sealed, Store, StoreConflictError
from keyhouse.journal.store.sqlite import SqliteStore


def sealed_run(first: int, count: int, *, size: int = 10, epoch: int = 1) -> list[Sealed]:
    sealer = Sealer(DEK, STORE_ID, epoch)
    position = Position(epoch, first - 1, first_link(STORE_ID))
    run = []
    for _ in range(count):
        sealed, position = sealer.seal(position, Kind.EVENT, b"x" * size)
        run.append(sealed)
    return run


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def start_of(epoch: int, first: int) -> EpochStart:
    return EpochStart(STORE_ID, epoch, first, first_link(STORE_ID), key_check(DEK, STORE_ID, epoch))


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store
    if request.param == "memory":
        opened = MemoryStore()
    else:
        opened = await SqliteStore.open(tmp_path / "journal.db")
    yield opened
    await opened.close()


async def everything(store: Store) -> list[Sealed]:
    found: list[Sealed] = []
    while batch := (await store.read(found[-1].sequence if found else 0)).records:
        found += batch
    return found


async def test_the_empty_store_is_at_zero(store: Store) -> None:
    assert await store.head() == Head(0, 0)
    batch = await store.read(0)
    assert batch.start is None
    assert batch.records == ()


async def test_records_come_back_as_they_were(store: Store) -> None:
    run = sealed_run(1, 5)
    await store.begin_epoch(0, start_of(1, 1), run[:2])
    await store.append(2, run[2:])
    assert await everything(store) == run
    assert await store.head() == Head(1, 5)
    assert (await store.read(3)).records == tuple(run[3:])
    assert (await store.read(5)).records == ()
    assert (await store.read(3)).start == start_of(1, 1)


@pytest.mark.parametrize("expected", [0, 1, 3, 99])
async def test_an_append_elsewhere_than_at_the_end_is_a_conflict(
    store: Store, expected: int
) -> None:
    run = sealed_run(1, 2)
    await store.begin_epoch(0, start_of(1, 1), run)
    with pytest.raises(StoreConflictError):
        await store.append(expected, sealed_run(expected + 1, 1))
    with pytest.raises(StoreConflictError):
        await store.begin_epoch(expected, start_of(2, expected + 1), sealed_run(expected + 1, 1))
    assert await everything(store) == run


async def test_an_epoch_replaces_everything_and_goes_on_counting(store: Store) -> None:
    await store.begin_epoch(0, start_of(1, 1), sealed_run(1, 4))
    base = sealed_run(5, 3, epoch=2)
    await store.begin_epoch(4, start_of(2, 5), iter(base))
    assert await everything(store) == base
    assert await store.head() == Head(2, 7)
    assert (await store.read(0)).start == start_of(2, 5)


async def test_a_base_that_fails_changes_nothing(store: Store) -> None:
    def failing() -> Iterator[Sealed]:
        yield from sealed_run(3, 2)
        raise LookupError

    run = sealed_run(1, 2)
    await store.begin_epoch(0, start_of(1, 1), run)
    with pytest.raises(LookupError):
        await store.begin_epoch(2, start_of(2, 3), failing())
    assert await everything(store) == run
    assert await store.head() == Head(1, 2)
    await store.append(2, sealed_run(3, 1))


async def test_batches_are_bounded_by_number_and_size(store: Store) -> None:
    await store.begin_epoch(0, start_of(1, 1), sealed_run(1, 1))
    await store.append(1, sealed_run(2, 2500))
    assert len((await store.read(0)).records) == 1000
    assert [each.sequence for each in await everything(store)] == list(range(1, 2502))


async def test_closing_twice_is_allowed(store: Store) -> None:
    await store.close()
    await store.close()


async def test_sqlite_reads_large_records_in_small_batches(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    run = sealed_run(1, 12, size=1024 * 1024)
    await store.begin_epoch(0, start_of(1, 1), run)
    assert len((await store.read(0)).records) < 6
    assert await everything(store) == run
    await store.close()


async def test_sqlite_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    run = sealed_run(1, 4)
    await store.begin_epoch(0, start_of(1, 1), run[:3])
    await store.append(3, run[3:])
    await store.close()
    assert names(tmp_path) == ["journal.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    store = await SqliteStore.open(path)
    assert await everything(store) == run
    await store.close()
