"""Engines over a store with several writers and with outages."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import pytest
from support.samples.deployment import manifest, stored, upload
from support.samples.replicas import begin, engine_on
from support.samples.simulated_store import Database, Fault, SimulatedStore
from support.samples.simulated_time import SimulatedLoop, in_simulated_time, until_idle

from keyhouse.base.errors import BrokenError, UnavailableError, UnsettledError
from keyhouse.coordinator import Engine
from keyhouse.coordinator.core import evolve
from keyhouse.coordinator.engine.unflushed import REPORT_UNKNOWN_AFTER
from keyhouse.journal import NotDurableError, RolledBackError, chain
from keyhouse.journal.store.protocol import Batch

A, B = b"a" * 16, b"b" * 16


async def _database(secrets: int = 3) -> Database:
    database = Database()
    await begin(SimulatedStore(database), manifest(secrets, SealMode="Disabled"))
    return database


def _epoch(database: Database) -> int:
    start = database.stored.start
    assert start is not None
    return start.epoch


def _where(engine: Engine) -> int:
    assert engine.view.position is not None
    return engine.view.position.sequence


@in_simulated_time
async def test_a_replica_that_only_reads_follows_the_others(tmp_path: Path) -> None:
    database = await _database()
    deaf = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
        engine_on(deaf, tmp_path / "c") as third,
    ):
        await until_idle()
        deaf.deaf = True
        await upload(one, {"key0": A})
        await until_idle()
        assert stored(other.view)["key0"] == A
        assert "key0" not in stored(third.view)
        before = other.view
        other.queue.request_follow()
        await until_idle()
        assert other.view is before  # without new records there is no new view
        deaf.down = True
        third.queue.request_follow()
        await until_idle()
        assert "key0" not in stored(third.view)
        deaf.heal(database)
        third.queue.request_follow()
        await until_idle()
        assert stored(third.view)["key0"] == A


@in_simulated_time
async def test_a_writer_that_is_always_outrun_waits_for_its_turn(tmp_path: Path) -> None:
    database = await _database()
    slow = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(slow, tmp_path / "b") as other,
    ):
        slow.deaf = True
        slow.hold()
        slowly = asyncio.create_task(upload(other, {"key1": B}))
        await until_idle()
        await upload(one, {"key0": A})
        slow.let_pass()
        slow.faults += [Fault.CONFLICT] * 3  # the connection and the turn are lost
        assert stored(await slowly)["key0"] == A
        slow.faults += [Fault.CONFLICT] * 999
        with pytest.raises(UnavailableError):
            await upload(other, {"key2": B})
        assert "key2" not in stored(one.view)
        slow.faults.clear()
        await upload(other, {"key2": B})


class Distant(SimulatedStore):
    """A store whose reads take 0.1 s, and whose turns begin ``wait`` seconds after the request."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.wait = 0.0
        self.reading = self.looks_in_wait = 0
        self.at_begin: list[int] = []  # number of running reads at the begin of each turn

    async def read(self, after_seq: int) -> Batch:
        self.reading += 1
        self.looks_in_wait += 1
        try:
            await asyncio.sleep(0.1)
            return await super().read(after_seq)
        finally:
            self.reading -= 1

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self.looks_in_wait = 0
        await asyncio.sleep(self.wait)
        self.at_begin.append(self.reading)
        async with super().turn():
            yield


@in_simulated_time
async def test_no_look_is_under_way_when_a_distant_writer_has_its_turn(tmp_path: Path) -> None:
    """A running read would have to end first, and would shorten the turn."""
    distant = Distant(await _database())
    async with engine_on(distant, tmp_path / "a") as engine:
        distant.wait = 0.2
        distant.faults += [Fault.CONFLICT] * 4
        await upload(engine, {"key0": A})
        assert distant.at_begin[-4:] == [0, 0, 0, 0]
        distant.wait = 3.0  # with a long wait, the engine follows the other writers
        distant.faults += [Fault.CONFLICT]
        await upload(engine, {"key1": A})
        assert distant.looks_in_wait > 2


@in_simulated_time
async def test_later_changes_join_a_batch_that_waits_for_its_turn(tmp_path: Path) -> None:
    database = await _database()
    distant = Distant(database)
    async with engine_on(distant, tmp_path / "a") as engine:
        await until_idle()
        distant.wait = 0.2
        distant.faults += [Fault.CONFLICT]
        before = len(database.history)
        first = asyncio.create_task(upload(engine, {"key0": A}))
        await asyncio.sleep(0.1)
        later = asyncio.create_task(upload(engine, {"key1": B}))
        await asyncio.gather(first, later)
        assert len(database.history) == before + 1
        assert stored(engine.view)["key0"] == A
        assert stored(engine.view)["key1"] == B


@in_simulated_time
async def test_a_batch_that_never_has_its_turn_fails_with_the_changes_that_joined(
    tmp_path: Path,
) -> None:
    distant = Distant(await _database())
    async with engine_on(distant, tmp_path / "a") as engine:
        await until_idle()
        distant.wait = 0.2
        distant.faults += [Fault.CONFLICT] * 999
        first = asyncio.create_task(upload(engine, {"key0": A}))
        await asyncio.sleep(0.1)
        later = asyncio.create_task(upload(engine, {"key1": B}))
        for each in (first, later):
            with pytest.raises(UnavailableError):
                await each


@in_simulated_time
async def test_for_a_second_after_a_conflict_several_changes_wait_for_a_turn(
    tmp_path: Path,
) -> None:
    """Otherwise the database would refuse them: another writer has or awaits a turn."""
    distant = Distant(await _database())
    async with engine_on(distant, tmp_path / "a") as engine:

        async def turns(changes: int) -> int:
            distant.at_begin.clear()
            names = [f"key{number}" for number in range(changes)]
            await asyncio.gather(*(upload(engine, {name: A}) for name in names))
            return len(distant.at_begin)

        await until_idle()
        distant.faults += [Fault.CONFLICT]
        assert await turns(2) == 1
        assert await turns(2) == 1
        assert await turns(1) == 0
        await asyncio.sleep(1)
        assert await turns(2) == 0


@in_simulated_time
async def test_compaction_happens_however_fast_others_write(tmp_path: Path) -> None:
    """A base takes long. Before writers waited for a turn, another writer was always faster."""
    database = await _database()
    big = b"x" * 400_000
    busy = True

    async def keep_writing(engine: Engine) -> int:
        count = 0
        while busy:
            await upload(engine, {"key0": A})
            count += 1
        return count

    async with engine_on(SimulatedStore(database), tmp_path / "a") as one:
        one.writer._patience = 10**9  # so the second engine must compact
        for number in range(3):
            await upload(one, {"note": big + bytes([number])})
        assert _epoch(database) == 1
        writing = asyncio.create_task(keep_writing(one))
        async with engine_on(SimulatedStore(database), tmp_path / "b") as other:
            for number in range(3):
                await upload(other, {"key1": bytes([number]) * 16})
        assert _epoch(database) == 2
        busy = False
        assert await writing > 3


@in_simulated_time
async def test_replicas_compact_once_if_a_compaction_is_due_for_all(tmp_path: Path) -> None:
    database = await _database()
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await upload(one, {"key0": A})
        await upload(other, {"key1": A})
        assert _epoch(database) == 1
        await asyncio.gather(one._compact(), other._compact())
        assert _epoch(database) == 2
        await upload(other, {"key0": A})
        await upload(one, {"key1": A})
        await other._compact()
        assert _epoch(database) == 3


async def test_an_epoch_of_another_is_read_beside_the_event_loop(tmp_path: Path) -> None:
    ciphers = (chain.Sealer.seal.__code__, chain.Sealer.unseal.__code__)
    seen: list[str] = []

    def called(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and (code.co_filename == evolve.__file__ or code in ciphers):
            seen.append(code.co_qualname)

    database = await _database(3000)
    slow = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(slow, tmp_path / "b") as other,
    ):
        slow.deaf = True
        one.writer._patience = 10**9  # so this engine begins no further epoch
        await upload(one, {f"key{number}": A for number in range(3000)})
        await one._compact()
        await upload(one, {"note": b"behind it"})
        arrived = asyncio.Event()
        other.current.on_view.append(
            lambda: arrived.set() if "note" in stored(other.view) else None
        )
        other.queue.request_follow()
        sys.setprofile(called)  # for this thread only
        try:
            await arrived.wait()  # a busy loop would keep the GIL from the other threads
        finally:
            sys.setprofile(None)
        assert stored(other.view)["key2999"] == A
        assert other.view.log.lines() == one.view.log.lines()
    assert seen == []


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.LATE])
@pytest.mark.parametrize("wins", [False, True])
def test_an_outage_pauses_the_engine_and_ends_with_the_truth(
    tmp_path: Path,
    fault: Fault,
    wins: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(_outage(tmp_path, fault, wins=wins))


async def _outage(tmp_path: Path, fault: Fault, *, wins: bool) -> None:
    loop = asyncio.get_running_loop()
    database = await _database()
    store = SimulatedStore(database)
    async with engine_on(store, tmp_path / "a") as engine:
        await upload(engine, {"key0": A})
        before, began = engine.view, loop.time()
        store.faults.append(fault)
        store.breaks, store.late_win = True, wins
        first = asyncio.create_task(upload(engine, {"key1": B}))
        await asyncio.sleep(REPORT_UNKNOWN_AFTER / 2)
        second = asyncio.create_task(upload(engine, {"key2": B}))
        with pytest.raises(UnsettledError, match="may still happen"):
            await first
        assert loop.time() - began == pytest.approx(REPORT_UNKNOWN_AFTER, abs=0.01)
        with pytest.raises(UnavailableError, match="does not answer"):
            await second
        await asyncio.sleep(3600)
        assert engine.view is before  # reads show durable records only
        with pytest.raises(UnavailableError, match="does not answer"):
            await upload(engine, {"key2": B})
        store.heal(database)
        await asyncio.sleep(REPORT_UNKNOWN_AFTER)
        happened = fault is Fault.LOST_ANSWER or (fault is Fault.LATE and wins)
        assert ("key1" in stored(engine.view)) is happened
        store.arrive_late()
        await upload(engine, {"key2": B})
        assert ("key1" in stored(engine.view)) is happened
        assert engine.queue.broken is None
    async with engine_on(SimulatedStore(database), tmp_path / "b") as restarted:
        assert stored(restarted.view) == stored(engine.view)


@in_simulated_time
async def test_the_time_until_callers_are_told_begins_with_their_write(tmp_path: Path) -> None:
    """The time begins with the write, not with the end of the store's patience."""
    loop = asyncio.get_running_loop()
    database = await _database()
    store = SimulatedStore(database)
    async with engine_on(store, tmp_path / "a", shares_store=True) as engine:
        store.hold()
        began = loop.time()
        writing = asyncio.create_task(upload(engine, {"key1": B}))
        with pytest.raises(UnsettledError, match="may still happen"):
            await writing
        assert loop.time() - began == pytest.approx(REPORT_UNKNOWN_AFTER, abs=0.01)
        store.let_pass()
        await until_idle()
        assert stored(engine.view)["key1"] == B


@in_simulated_time
async def test_an_outage_that_is_short_is_not_noticed(tmp_path: Path) -> None:
    database = await _database()
    store = SimulatedStore(database)
    async with engine_on(store, tmp_path / "a") as engine:
        store.faults += [Fault.LOST_ANSWER, Fault.LOST_REQUEST]
        store.breaks = True
        first = asyncio.create_task(upload(engine, {"key1": B}))
        await asyncio.sleep(REPORT_UNKNOWN_AFTER / 2)
        store.heal(database)
        assert stored(await first)["key1"] == B
        store.breaks = True
        second = asyncio.create_task(upload(engine, {"key2": B}))
        await asyncio.sleep(REPORT_UNKNOWN_AFTER / 2)
        store.heal(database)
        with pytest.raises(NotDurableError):
            await second
        assert "key2" not in stored(engine.view)


@in_simulated_time
async def test_a_write_that_surely_did_not_happen_is_repeated_once(tmp_path: Path) -> None:
    """After the end of a connection, the database accepts a new one: no client must retry."""
    database = await _database()
    store = SimulatedStore(database)
    async with engine_on(store, tmp_path / "a", shares_store=True) as engine:
        for number, faults in enumerate(
            ([Fault.LOST_REQUEST], [Fault.CONFLICT, Fault.LOST_REQUEST], [Fault.LATE])
        ):
            before = len(database.history)
            store.faults += faults
            assert stored(await upload(engine, {f"key{number}": B}))[f"key{number}"] == B
            store.arrive_late()
            assert len(database.history) == before + 1
        store.faults += [Fault.LOST_REQUEST] * 2
        with pytest.raises(NotDurableError):
            await upload(engine, {"key0": A})
        assert stored(engine.view)["key0"] == B


@in_simulated_time
async def test_a_write_is_not_repeated_when_its_caller_was_told(tmp_path: Path) -> None:
    database = await _database()
    store = SimulatedStore(database)
    async with engine_on(store, tmp_path / "a", shares_store=True) as engine:
        store.faults.append(Fault.LOST_REQUEST)
        store.breaks = True
        with pytest.raises(UnsettledError, match="may still happen"):
            await upload(engine, {"key1": B})
        before = len(database.history)
        store.heal(database)
        await asyncio.sleep(REPORT_UNKNOWN_AFTER)
        await upload(engine, {"key2": B})
        assert len(database.history) == before + 1
        assert "key1" not in stored(engine.view)


@in_simulated_time
async def test_what_cannot_be_told_after_another_began_an_epoch_is_said(tmp_path: Path) -> None:
    database = await _database()
    store = SimulatedStore(database)
    async with (
        engine_on(store, tmp_path / "a") as engine,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        store.faults.append(Fault.LOST_ANSWER)
        store.breaks = True
        first = asyncio.create_task(upload(engine, {"key1": B}))
        await until_idle()
        await upload(other, {"key0": A})
        await other._compact()
        store.heal(database)
        with pytest.raises(UnsettledError):
            await first
        await until_idle()
        assert stored(engine.view) == stored(other.view)
        assert stored(engine.view)["key1"] == B
        await upload(engine, {"key2": B})


@in_simulated_time
async def test_an_engine_that_stops_in_an_outage_says_so(tmp_path: Path) -> None:
    database = await _database()
    store = SimulatedStore(database)
    async with engine_on(store, tmp_path / "a") as engine:
        store.down = True
        answers = [asyncio.create_task(upload(engine, {f"key{n}": A})) for n in range(3)]
        await until_idle()
    assert engine.queue.broken is not None
    assert all(isinstance(answer.exception(), BrokenError) for answer in answers)
    with pytest.raises(BrokenError):
        await upload(engine, {"key0": A})


@in_simulated_time
async def test_a_replica_that_knew_more_than_the_store_stops(tmp_path: Path) -> None:
    database = await _database()
    knowing = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
        engine_on(knowing, tmp_path / "a") as engine,
    ):
        await upload(engine, {"key0": A})
        at = _where(engine)
        database.lose_tail(1)
        with pytest.raises(RolledBackError):
            await upload(engine, {"key1": A})
        assert engine.queue.broken is not None
        assert _where(engine) == at
        assert _where(other) <= at
