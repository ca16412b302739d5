"""Answers that wait until the view has the writes of all writers of the store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from support.samples.deployment import manifest, stored, upload
from support.samples.replicas import DEK, STORE_ID, begin, engine_on
from support.samples.simulated_store import Database, Fault, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator import Engine, ReadGate
from keyhouse.coordinator.core.events import CollateralSeen
from keyhouse.coordinator.engine.read_gate import LONGEST
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.engine.unflushed import PATIENCE
from keyhouse.journal import Journal

A, B = b"a" * 16, b"b" * 16


class Two(NamedTuple):
    """A writing engine, and a second engine without notifications."""

    database: Database
    one: Engine
    other: Engine
    store: SimulatedStore  # of ``other``
    gate: ReadGate  # of ``other``


@asynccontextmanager
async def two(path: Path) -> AsyncIterator[Two]:
    database = Database()
    await begin(SimulatedStore(database), manifest(3, SealMode="Disabled"))
    store = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), path / "a") as one,
        engine_on(store, path / "b") as other,
    ):
        await until_idle()
        store.deaf = True
        yield Two(database, one, other, store, ReadGate(other))


@in_simulated_time
async def test_an_answer_shows_what_was_acknowledged_before_it_was_asked_for(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as (_, one, other, _, gate):
        for value in (A, B):
            await upload(one, {"key0": value})
            assert stored(other.view).get("key0") != value
            assert await gate.confirmed(lambda _: stored(other.view)["key0"]) == value
        await gate.passed()


@in_simulated_time
async def test_one_look_serves_all_that_wait_and_none_that_come_later(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, one, other, store, gate):
        before = store.looks
        store.hold_looks()
        waiting = [gate.confirmed(lambda problem: problem) for _ in range(100)]
        await until_idle()
        waiting[7].cancel()
        await upload(one, {"key0": A})
        late = [gate.confirmed(lambda _: "key0" in stored(other.view)) for _ in range(100)]
        store.let_pass()
        assert set(await asyncio.gather(*waiting[:7], *waiting[8:])) == {None}
        assert await asyncio.gather(*late) == [True] * 100
        assert store.looks == before + 2


@in_simulated_time
async def test_nothing_is_confirmed_while_the_store_is_away(tmp_path: Path) -> None:
    settled: list[bool] = []
    async with two(tmp_path) as (database, one, other, store, gate):
        store.down = True
        with pytest.raises(UnavailableError, match="no connection"):
            await gate.passed()
        await until_idle()
        settled.append(other.is_settled)
        await upload(one, {"key0": A})
        store.heal(database)
        await gate.passed()
        await until_idle()
        settled.append(other.is_settled)
        assert settled == [False, True]
        assert stored(other.view)["key0"] == A


@in_simulated_time
async def test_a_view_that_does_not_reach_the_head_is_not_shown(tmp_path: Path) -> None:
    """The engine waits for its own write, so the engine cannot read foreign writes."""
    async with two(tmp_path) as (_, one, other, store, gate):
        store.hold()
        writing = asyncio.create_task(upload(other, {"key1": B}))
        await until_idle()
        await upload(one, {"key0": A})
        began = asyncio.get_running_loop().time()
        with pytest.raises(UnavailableError, match="newest state"):
            await gate.passed()
        assert asyncio.get_running_loop().time() - began >= LONGEST
        late = asyncio.create_task(gate.passed())
        await until_idle()
        store.let_pass()
        await late
        assert stored(other.view) == {**stored(other.view), "key0": A}
        await writing


@in_simulated_time
async def test_a_write_whose_outcome_is_not_known_is_shown_once_another_has_seen_it(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as (_, one, other, store, gate):
        store.faults.append(Fault.LOST_ANSWER)
        store.breaks = True
        writing = asyncio.create_task(upload(other, {"key0": A}))
        await until_idle()
        assert not other.is_settled
        await ReadGate(one).passed()
        assert stored(one.view)["key0"] == A
        store.down = store.breaks = False
        assert await gate.confirmed(lambda _: stored(other.view)["key0"]) == A
        await writing


@in_simulated_time
async def test_a_view_with_another_record_at_the_place_of_the_head_is_not_shown(
    tmp_path: Path,
) -> None:
    """The store returns a head, fails over to a standby without this head, and accepts a write."""
    async with two(tmp_path) as (database, one, other, store, gate):
        await upload(one, {"key0": A})
        shown = database.stored.head
        store.hold_looks()
        waiting = asyncio.create_task(gate.passed())
        await until_idle()
        database.lose_tail(1)
        writer, _ = await Journal.open(SimulatedStore(database), store_id=STORE_ID, dek=DEK)
        await writer.append(list(encode_events([CollateralSeen(time=1, marks={})])))
        other.queue.request_follow()
        await until_idle()
        assert shown is not None
        assert other.view.position is not None
        assert other.view.position.sequence == shown.sequence
        store.let_pass()
        with pytest.raises(UnavailableError, match="newest state"):
            await waiting


@in_simulated_time
async def test_a_store_that_lost_what_was_seen_confirms_nothing(tmp_path: Path) -> None:
    async with two(tmp_path) as (database, one, other, _, gate):
        await upload(one, {"key0": A})
        await gate.passed()
        database.lose_tail(1)
        with pytest.raises(UnavailableError):
            await gate.passed()
        database.lose_tail(1)
        await until_idle()
        assert other.queue.broken is not None


@in_simulated_time
async def test_a_store_with_another_record_in_the_same_place_confirms_nothing(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as (database, one, other, store, gate):
        store.deaf = False
        await upload(other, {"key0": A})
        await upload(other, {"key0": A})
        store.deaf = True
        database.lose_tail(2)
        third = SimulatedStore(database)
        async with engine_on(third, tmp_path / "c") as other_writer:  # a start is two records
            assert other_writer.view.position is not None
            assert other.view.position is not None
            assert other_writer.view.position.sequence == other.view.position.sequence
            with pytest.raises(UnavailableError):
                await gate.passed()
        del one


@in_simulated_time
async def test_an_answer_that_fails_fails_alone(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, _, _, _, gate):
        failing = gate.confirmed(lambda _: 1 // 0)
        good = gate.confirmed(lambda _: 1)
        with pytest.raises(ZeroDivisionError):
            await failing
        assert await good == 1


@in_simulated_time
async def test_followed_changes_are_flushed_soon_and_at_once_for_a_reader(tmp_path: Path) -> None:
    database = Database()
    first = manifest(3, SealMode="Disabled")
    await begin(SimulatedStore(database), first, shares_flush=True)
    store = SimulatedStore(database)
    async with (
        engine_on(store, tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await upload(other, {"key1": B})
        await until_idle()
        gate = ReadGate(other)
        for value, reads in ((A, False), (B, True)):
            store.hold_flushes()
            writing = asyncio.create_task(upload(one, {"key0": value}))
            await until_idle()
            assert stored(other.view).get("key0") != value
            began = asyncio.get_running_loop().time()
            if reads:
                await gate.passed()
                assert asyncio.get_running_loop().time() - began < PATIENCE / 2
            else:
                await asyncio.sleep(PATIENCE)
                await until_idle()
            assert stored(other.view)["key0"] == value
            store.let_pass()
            await writing
