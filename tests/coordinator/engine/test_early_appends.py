"""Appends before their flush, in PostgreSQL: their visibility, and their loss in a crash."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.peers.postgres import PostgresServer
from support.process.server import signal_all
from support.samples.state import DEK, STORE_ID

from keyhouse.journal import (
    Continuation,
    Journal,
    OutcomeUnknownError,
    Replay,
    RolledBackError,
    StoreConflictError,
    StoreUnreadableError,
    TailLostError,
)
from keyhouse.journal.store.postgres import PostgresStore


class Writers:
    """Journals of several writers on one database."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name
        self.stores: list[PostgresStore] = []

    async def store(self) -> PostgresStore:
        self.stores.append(await PostgresStore.open(self.server.url(self.name), STORE_ID))
        return self.stores[-1]

    async def begun(self) -> Journal:
        store = await self.store()
        journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
        self.begun_at = journal.position
        return journal

    async def joined(self) -> Journal:
        return (await Journal.open(await self.store(), store_id=STORE_ID, dek=DEK))[0]

    async def hold_wal(self) -> None:
        """Stop the process that flushes the WAL in the background; commits can still flush."""
        found = await self.server.ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        )
        signal_all(signal.SIGSTOP, *(pid for (pid,) in found))

    def crash(self) -> None:
        """Kill and restart the server."""
        self.server.crash()
        self.server.start()


@pytest.fixture
async def writers(postgres: PostgresServer) -> AsyncIterator[Writers]:
    writers = Writers(postgres, await postgres.database())
    yield writers
    for store in writers.stores:
        await store.close()


async def caught_up(journal: Journal) -> Replay | Continuation:
    """Catch up. The first call may fail because the connection ended with the server."""
    try:
        return await journal.catch_up()
    except StoreUnreadableError:
        return await journal.catch_up()


@asynccontextmanager
async def no_standby(server: PostgresServer) -> AsyncIterator[None]:
    """Let every flush wait for an absent standby."""
    await server.awaited("absent")
    try:
        yield
    finally:
        await server.awaited("")


async def test_the_next_writer_continues_before_the_flush(writers: Writers) -> None:
    """Neither the head row nor the notification waits for the standby."""
    one, other = await writers.begun(), await writers.joined()
    await one.append([b"first"], early=True)
    await other.catch_up()
    await other.flush()
    await other.append([b"second"], early=True)
    await other.flush()
    await one.catch_up()
    await one.flush()
    async with no_standby(writers.server):
        durable = one.position
        await one.append([b"third"], early=True)
        flushing = asyncio.create_task(one.flush())
        found = await other.catch_up()
        assert isinstance(found, Continuation)
        assert found.events == (b"third",)
        await other.append([b"fourth"], early=True)
        assert not flushing.done()
        assert one.position == durable
        assert other.position == durable
        assert other.written.sequence == durable.sequence + 2
    await flushing
    assert one.position == one.written
    await other.flush()
    assert other.position == other.written


@pytest.mark.parametrize("flush_first", [True, False], ids=["flush", "read"])
async def test_a_crash_before_the_flush_returns_each_writer(
    writers: Writers,
    flush_first: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    one, other = await writers.begun(), await writers.joined()
    await one.append([b"kept"], early=True)
    await one.flush()
    await other.catch_up()
    await other.append([b"kept, too"], early=True)  # each new connection begins with a commit
    await other.flush()
    await one.catch_up()
    await one.flush()
    await writers.hold_wal()
    durable = one.position
    await one.append([b"lost"], early=True)
    await other.catch_up()
    await other.append([b"lost, too"], early=True)
    writers.crash()
    for journal in (one, other):
        if flush_first:
            with pytest.raises(OutcomeUnknownError):
                await journal.flush()
        with pytest.raises(TailLostError):
            await caught_up(journal)
        assert journal.position == journal.written == durable
        assert journal.trail.at(durable.sequence + 1) is None
    try:
        await one.append([b"next"])
    except StoreConflictError:  # the second writer has a new connection with a new fence
        await one.catch_up()
        await one.append([b"next"])
    found = await other.catch_up()
    assert isinstance(found, Continuation)
    assert found.events == (b"next",)
    assert (await writers.joined()).position == one.position


async def test_a_flush_on_a_new_connection_proves_nothing(writers: Writers) -> None:
    """The writer reads the records again. They exist, so the next flush covers them."""
    one = await writers.begun()
    await one.append([b"first"], early=True)
    await one.flush()
    await one.append([b"second"], early=True)
    flushing = writers.stores[0]._flushes.connections
    assert flushing
    for connection in flushing:
        connection.drop()
    with pytest.raises(OutcomeUnknownError):
        await one.flush()
    assert one.position.sequence == one.written.sequence - 1
    await one.catch_up()
    await one.flush()
    assert one.position == one.written


async def test_a_change_during_a_flush_begins_the_next_flush_at_once(writers: Writers) -> None:
    """Otherwise the change would wait for the rest of this flush, and for a complete flush."""
    one = await writers.begun()
    flushes = writers.stores[0]._flushes
    await one.append([b"first"], early=True)
    while len(flushes.connections) < 2:  # the next connection opens when all are busy
        await one.append([b"more"], early=True)
        await asyncio.gather(one.flush(), one.flush())
    async with no_standby(writers.server):
        await one.append([b"second"], early=True)
        flushing = [asyncio.create_task(one.flush())]
        await one.append([b"third"], early=True)
        flushing.append(asyncio.create_task(one.flush()))
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while len(await writers.server.ask(waiting)) < len(flushing):
            assert not any(task.done() for task in flushing)
    await asyncio.gather(*flushing)
    assert one.position == one.written


async def test_an_append_with_a_flush_covers_all_earlier_ones(writers: Writers) -> None:
    one, other = await writers.begun(), await writers.joined()
    await one.append([b"early"], early=True)
    await one.append([b"late"])
    assert one.position == one.written
    writers.crash()
    await caught_up(other)
    assert other.written == one.position


async def test_another_epoch_comes_only_after_the_flush_of_what_was_before(
    writers: Writers,
) -> None:
    one, other = await writers.begun(), await writers.joined()
    await one.append([b"early"], early=True)
    await other.catch_up()
    await other.begin_epoch([b"base of all"])
    await one.catch_up()
    assert one.position == one.written == other.position


async def test_records_that_were_durable_are_never_given_up(writers: Writers) -> None:
    one = await writers.begun()
    await one.append([b"acknowledged"], early=True)
    await one.flush()
    await one.append([b"early"], early=True)
    start = writers.begun_at
    await writers.server.ask(
        f"UPDATE keyhouse.head SET sequence = 1, chain = '\\x{start.chain.hex()}'",  # noqa: S608
        database=writers.name,
    )
    await writers.server.ask(
        "DELETE FROM keyhouse.record WHERE sequence > 1", database=writers.name
    )
    with pytest.raises(TailLostError):
        await one.catch_up()
    with pytest.raises(RolledBackError):
        await one.catch_up()
