"""Stores that fail, are shared, or break at any step, below a real engine."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from support.captured_log import capture_logs
from support.samples.activation import marble_manifest
from support.samples.deployment import NOW, stored, upload
from support.samples.replicas import begin, engine_on

from keyhouse.base.errors import ForbiddenError, UnavailableError
from keyhouse.coordinator import Activate, Activated
from keyhouse.journal import MemoryStore, OutcomeUnknownError, StoreConflictError
from keyhouse.journal.store.protocol import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Position,
    Sealed,
    StoreFullError,
)

A, B = b"a" * 16, b"b" * 16


class FaultyStore:
    """A memory store. Its next appends raise the queued errors, before or after the append."""

    is_whole = True

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

    async def append_early(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> None:
        await self.append(expected, records, head)

    async def read(self, after_seq: int) -> Batch:
        if self.unreadable:
            raise OutcomeUnknownError("the store does not answer")
        return await self.inner.read(after_seq)

    async def head(self) -> Position | None:
        return await self.inner.head()

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        await self.inner.begin_epoch(expected, start, records, beside)

    async def settle(self) -> Position | None:
        if self.unreadable:
            raise OutcomeUnknownError("the store does not answer")
        return await self.inner.settle()

    def turn(self) -> AbstractAsyncContextManager[None]:
        return self.inner.turn()

    def watch(self, changed: Callable[[], None]) -> None:
        self.inner.watch(changed)

    async def close(self) -> None:
        await self.inner.close()


async def _shared_store(raw: bytes | None = None) -> MemoryStore:
    store = MemoryStore()
    await begin(store, raw)
    return store


async def test_two_engines_on_one_store_decide_again_what_the_other_outran(
    tmp_path: Path,
) -> None:
    store = await _shared_store()
    async with engine_on(store, tmp_path / "a") as one, engine_on(store, tmp_path / "b") as two:
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
    async with engine_on(store, tmp_path / "c") as third:
        assert stored(third.view) == values
        assert len(third.view.log) == 1 + 50 + 2
        assert third.view.position is not None
        assert third.view.position.sequence == written + 2  # the record of the start, and the leaf


async def test_two_engines_on_one_store_keep_a_limit_together(tmp_path: Path) -> None:
    store = await _shared_store(marble_manifest({"web": {"Package": "app", "MaxActivations": 5}}))
    async with engine_on(store, tmp_path / "a") as one, engine_on(store, tmp_path / "b") as two:
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
    async with engine_on(store, tmp_path / "a") as engine:
        engine.queue.record(_activated())
        store.before = [StoreFullError("no room")]
        with pytest.raises(UnavailableError, match="no room"):
            await upload(engine, {"key0": A})
        assert (len(engine.queue.unrecorded), engine.view.log.audit.end) == (1, 0)
        await upload(engine, {"key0": A})
        assert (len(engine.queue.unrecorded), engine.view.log.audit.end) == (0, 1)


async def test_a_record_that_never_has_room_does_not_keep_the_process(tmp_path: Path) -> None:
    store = FaultyStore(await _shared_store())
    async with asyncio.timeout(30), engine_on(store, tmp_path / "a") as engine:
        engine.queue.record(_activated())
        store.before = [StoreFullError("no room")]
    assert len(engine.queue.unrecorded) == 0
    async with engine_on(store, tmp_path / "b") as engine:
        assert engine.view.log.audit.end == 0
    with pytest.raises(UnavailableError, match="stopping"):
        engine.queue.record(_activated())


def _activated(*, counted: bool = False) -> Activated:
    return Activated(time=NOW, marble_type="web", uuid="u", names=(), counted=counted, quoted=False)


@pytest.mark.parametrize(
    "error",
    [StoreFullError("no room"), StoreConflictError("another was first")],
    ids=["full", "conflict"],
)
async def test_what_surely_failed_leaves_the_old_state(tmp_path: Path, error: Exception) -> None:
    store = FaultyStore(await _shared_store())
    async with engine_on(store, tmp_path / "a") as engine:
        await upload(engine, {"key0": A})
        before = engine.view
        store.before = [error]
        if isinstance(error, StoreFullError):
            with pytest.raises(UnavailableError, match="no room"):
                await upload(engine, {"key0": B})
            assert engine.view is before
        await upload(engine, {"key0": B})
        assert stored(engine.view)["key0"] == B


async def test_a_full_disk_is_logged_once_and_its_end_with_the_number_of_changes(
    tmp_path: Path,
) -> None:
    store = FaultyStore(await _shared_store())
    with capture_logs() as entries:
        async with engine_on(store, tmp_path / "a") as engine:
            for _ in range(20):
                store.before = [StoreFullError("no room")]
                with pytest.raises(UnavailableError, match="no room"):
                    await upload(engine, {"key0": A})
            await upload(engine, {"key0": B})
    found = [each for each in entries if "stored" in each["event"]]
    assert [each["event"] for each in found] == [
        "a change could not be stored", "changes are stored again",
    ]  # fmt: skip
    assert found[1]["not_stored"] == 20


async def test_an_unknown_outcome_that_happened_is_found_by_reading_back(tmp_path: Path) -> None:
    store = FaultyStore(await _shared_store())
    async with engine_on(store, tmp_path / "a") as engine:
        store.after = [OutcomeUnknownError("the answer was lost")]
        assert stored(await upload(engine, {"key0": A}))["key0"] == A
        assert stored(await upload(engine, {"key1": B}))["key1"] == B


async def test_an_unknown_outcome_that_did_not_happen_is_found_by_reading_back(
    tmp_path: Path,
) -> None:
    store = FaultyStore(await _shared_store())
    async with engine_on(store, tmp_path / "a") as engine:
        before = engine.view
        store.before = [OutcomeUnknownError("the request was lost")]
        with pytest.raises(UnavailableError):
            await upload(engine, {"key0": A})
        assert engine.view is before
        assert stored(await upload(engine, {"key1": B}))["key1"] == B
