"""Stores that fail, are shared, or die at any step, below a real engine."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.samples.activation import marble_manifest
from support.samples.deployment import (
    NOW,
    FixedClock,
    manifest,
    moment,
    new_process,
    open_home,
    stored,
    upload,
)

from keyhouse.authority import make_coordinator_keys
from keyhouse.base.errors import BrokenError, ForbiddenError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Activate, Activated, Engine
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import AcceptingManifest, Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.records import decode_events, encode_events
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.journal import (
    Journal,
    MemoryStore,
    OutcomeUnknownError,
    StoreConflictError,
    StoreFullError,
)
from keyhouse.journal.store.records import Batch, EpochStart, Position, Sealed

STORE_ID, DEK = b"i" * 16, Secret(b"d" * 32)
A, B = b"a" * 16, b"b" * 16


class FaultyStore:
    """A memory store whose next appends raise what is queued, before or after they happened."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.unreadable = False

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        if self.before:
            raise self.before.pop(0)
        await self.inner.append(expected, records, head)
        if self.after:
            raise self.after.pop(0)

    async def read(self, after_seq: int) -> Batch:
        if self.unreadable:
            raise OutcomeUnknownError("the store does not answer")
        return await self.inner.read(after_seq)

    async def head(self) -> Position | None:
        return await self.inner.head()

    async def begin_epoch(
        self, expected: Position | None, start: EpochStart, records: Iterable[Sealed]
    ) -> None:
        await self.inner.begin_epoch(expected, start, records)

    async def settle(self) -> Position | None:
        if self.unreadable:
            raise OutcomeUnknownError("the store does not answer")
        return await self.inner.settle()

    async def close(self) -> None:
        await self.inner.close()


def _first_state(raw: bytes) -> tuple[Running, UpdateLog]:
    accepting = AcceptingManifest(
        make_coordinator_keys(
            dns_names=["localhost"],
            ip_addresses=[],
            curve="P-256",
            now=moment(NOW),
            simulated=True,
        )
    )
    command = prepare_manifest(accepting, raw, now=NOW)
    context = Context(now=NOW, **new_process()._asdict())
    events = decide(accepting, command, context)
    state = evolve_all(accepting, events)
    assert isinstance(state, Running)
    return state, UpdateLog(events)


async def _shared_store(raw: bytes | None = None) -> MemoryStore:
    store = MemoryStore()
    state, log = _first_state(raw or manifest(50))
    base = encode_events(base_events(state, log.view()))
    await Journal.create(store, store_id=STORE_ID, dek=DEK, base=base)
    return store


@asynccontextmanager
async def _engine_on(store: MemoryStore | FaultyStore, path: Path) -> AsyncIterator[Engine]:
    journal, replay = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    events = list(decode_events(replay.base + replay.events))
    engine = Engine(
        writer=JournalWriter(await open_home(path), journal, in_memory=True),
        clock=SecurityClock(FixedClock()),
        process=new_process(),
        state=evolve_all(None, events),
        update_log=UpdateLog(events),
    )
    await engine.announce()
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.stop()
        await asyncio.gather(writing, return_exceptions=True)
        await engine.close()


async def test_two_engines_on_one_store_decide_again_what_the_other_outran(
    tmp_path: Path,
) -> None:
    store = await _shared_store()
    async with _engine_on(store, tmp_path / "a") as one, _engine_on(store, tmp_path / "b") as two:
        for number in range(0, 50, 2):
            await asyncio.gather(
                upload(one, {f"key{number}": A}), upload(two, {f"key{number + 1}": B})
            )
        await upload(one, {"note": b"last"})
        await upload(two, {"note": b"really last"})
        assert two.view.position is not None
        written = two.view.position.sequence
        values = stored(two.view)
    assert {values[f"key{number}"] for number in range(0, 50, 2)} == {A}
    assert {values[f"key{number}"] for number in range(1, 50, 2)} == {B}
    assert values["note"] == b"really last"
    async with _engine_on(store, tmp_path / "c") as third:
        assert stored(third.view) == values
        assert len(third.view.log) == 1 + 50 + 2
        assert third.view.position is not None
        assert third.view.position.sequence == written + 1  # its own start


async def test_two_engines_on_one_store_keep_a_limit_together(tmp_path: Path) -> None:
    store = await _shared_store(marble_manifest({"web": {"Package": "app", "MaxActivations": 5}}))
    async with _engine_on(store, tmp_path / "a") as one, _engine_on(store, tmp_path / "b") as two:
        state = one.view.running
        commands = [
            Activate(state.manifest, state.keys.intermediate_cert, _activated(counted=True))
            for _ in range(6)
        ]
        answers = await asyncio.gather(
            *(engine.submit(command) for command in commands for engine in (one, two)),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, ForbiddenError) for answer in answers) == 7
        assert max(engine.view.running.activations["web"] for engine in (one, two)) == 5


async def test_a_record_without_room_waits_for_the_next_commit(tmp_path: Path) -> None:
    store = FaultyStore(await _shared_store())
    async with _engine_on(store, tmp_path / "a") as engine:
        engine.record(_activated())
        store.before = [StoreFullError("no room")]
        with pytest.raises(UnavailableError, match="no room"):
            await upload(engine, {"key0": A})
        assert (engine.unrecorded, engine.view.log.audit.end) == (1, 0)
        await upload(engine, {"key0": A})
        assert (engine.unrecorded, engine.view.log.audit.end) == (0, 1)


async def test_a_record_that_never_has_room_does_not_keep_the_process(tmp_path: Path) -> None:
    store = FaultyStore(await _shared_store())
    async with asyncio.timeout(30), _engine_on(store, tmp_path / "a") as engine:
        engine.record(_activated())
        store.before = [StoreFullError("no room")]
    assert engine.unrecorded == 0
    async with _engine_on(store, tmp_path / "b") as engine:
        assert engine.view.log.audit.end == 0
    with pytest.raises(UnavailableError, match="stopping"):
        engine.record(_activated())


def _activated(*, counted: bool = False) -> Activated:
    return Activated(time=NOW, marble_type="web", uuid="u", names=(), counted=counted, quoted=False)


@pytest.mark.parametrize(
    "error",
    [StoreFullError("no room"), StoreConflictError("another was first")],
    ids=["full", "conflict"],
)
async def test_what_surely_failed_leaves_the_old_state(tmp_path: Path, error: Exception) -> None:
    store = FaultyStore(await _shared_store())
    async with _engine_on(store, tmp_path / "a") as engine:
        await upload(engine, {"key0": A})
        before = engine.view
        store.before = [error]
        if isinstance(error, StoreFullError):
            with pytest.raises(UnavailableError, match="no room"):
                await upload(engine, {"key0": B})
            assert engine.view is before
        await upload(engine, {"key0": B})
        assert stored(engine.view)["key0"] == B


async def test_an_unknown_outcome_that_happened_is_found_by_reading_back(tmp_path: Path) -> None:
    store = FaultyStore(await _shared_store())
    async with _engine_on(store, tmp_path / "a") as engine:
        store.after = [OutcomeUnknownError("the answer was lost")]
        assert stored(await upload(engine, {"key0": A}))["key0"] == A
        assert stored(await upload(engine, {"key1": B}))["key1"] == B


async def test_an_unknown_outcome_that_did_not_happen_is_found_by_reading_back(
    tmp_path: Path,
) -> None:
    store = FaultyStore(await _shared_store())
    async with _engine_on(store, tmp_path / "a") as engine:
        before = engine.view
        store.before = [OutcomeUnknownError("the request was lost")]
        with pytest.raises(UnavailableError):
            await upload(engine, {"key0": A})
        assert engine.view is before
        assert stored(await upload(engine, {"key1": B}))["key1"] == B


async def test_an_outcome_that_stays_unknown_stops_the_engine_and_tells_everybody(
    tmp_path: Path,
) -> None:
    store = FaultyStore(await _shared_store())
    async with _engine_on(store, tmp_path / "a") as engine:
        before = engine.view
        store.after, store.unreadable = [OutcomeUnknownError("the answer was lost")], True
        answers = await asyncio.gather(
            *(upload(engine, {f"key{number}": A}) for number in range(5)), return_exceptions=True
        )
        assert all(isinstance(answer, BrokenError) for answer in answers)
        assert engine.view is before
        with pytest.raises(BrokenError):
            await upload(engine, {"key9": A})
    async with _engine_on(store.inner, tmp_path / "b") as restarted:
        assert stored(restarted.view)["key0"] == A
