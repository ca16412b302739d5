"""Replicas that share a flush, with crashes; the machine must find planted faults."""

import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from support.captured_log import capture_logs
from support.replicas.flushes import SharedFlushes
from support.replicas.machine import Replica
from support.samples.simulated_store import SimulatedStore

from keyhouse.coordinator.engine.unflushed import Unflushed
from keyhouse.coordinator.engine.work_queue import AcceptedCommand
from keyhouse.journal import Journal, OutcomeUnknownError
from keyhouse.journal.store.protocol import Batch, Flush

TestSharedFlushes = pytest.mark.timeout(300)(SharedFlushes.TestCase)
# The same search for each fault. It found each planted fault within 170 runs, most within 40.
_SEARCH = settings(
    max_examples=500,
    stateful_step_count=30,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
)
TestSharedFlushes.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class _ReadsAreDurable(SimulatedStore):
    """Planted: a reader publishes records of another writer before any flush."""

    async def read(self, after_seq: int) -> Batch:
        found = await super().read(after_seq)
        return Batch(found.start, found.records, found.head)


class _AppendsAreDurable(SimulatedStore):
    """Planted: a writer acknowledges before the flush."""

    async def append_early(self, *arguments: Any) -> None:
        await super().append_early(*arguments)


class _FlushesForget(SimulatedStore):
    """Planted: a flush after a crash covers records from before the crash."""

    def _flush(self) -> Flush:
        async def flush() -> None:
            while True:
                try:
                    await SimulatedStore._flush(self)()
                except OutcomeUnknownError:
                    if self.down or self.frozen is not None:
                        raise
                else:
                    return

        return flush


class _KeepsState(Unflushed):
    """Planted: after a crash, the engine decides on the lost state."""

    def returned(self) -> None:
        state = self._current.state
        super().returned()
        self._current.state = state


class _ForgetsCallers(Unflushed):
    """Planted: the return of the next flush acknowledges lost changes."""

    def returned(self) -> None:
        waiting = [*self.waiting]
        super().returned()
        for each in waiting:
            self._queue.answer(self._current.view, each.accepted)


class _RepeatsKept(Unflushed):
    """Planted: the engine decides kept changes again, so they happen twice."""

    def decide_lost(self, *, is_connected: bool) -> list[AcceptedCommand]:
        for each in self._lost if is_connected else ():
            self._queue.put_back(each.callers)
        if is_connected:
            self._lost = []
        return super().decide_lost(is_connected=is_connected)


class _ConfirmsLater(Journal):
    """Planted: a flush covers records written during the flush."""

    async def flush(self) -> None:
        if self._durable is not None and self._flush is not None:
            await self._flush()
            self._durable = None


def _with_store(kind: type[SimulatedStore]) -> type[SharedFlushes]:
    class Planted(SharedFlushes):
        def new_store(self) -> SimulatedStore:
            return kind(self.database, self.nonces)

    return Planted


def _with_engine(kind: type[Unflushed]) -> type[SharedFlushes]:
    class Planted(SharedFlushes):
        def joined(self, replica: Replica) -> None:
            replica.engine._unflushed.__class__ = kind
            super().joined(replica)

    return Planted


def _with_journal(kind: type[Journal]) -> type[SharedFlushes]:
    class Planted(SharedFlushes):
        def joined(self, replica: Replica) -> None:
            replica.journal.__class__ = kind
            super().joined(replica)

    return Planted


Steps = list[tuple[str, dict[str, Any]]]

_LOST: Steps = [
    ("hold_flushes", {}),
    ("upload", {"which": 0}),
    ("activate", {"which": 0}),
    ("crash", {"survive": 0}),
    ("let_flushes_pass", {}),
]
_FLUSHED_AFTER: Steps = [
    ("crash_before_the_flush", {"changes": [(0, False), (0, True)], "survive": 0})
]
_HELD: Steps = [("join", {}), ("hold_flushes", {}), ("upload", {"which": 0})]


def _run(machine: SharedFlushes, steps: Steps) -> None:
    try:
        machine.start()
        for name, values in steps:
            getattr(machine, name)(**values)
            machine.everything_holds()
    finally:
        try:
            machine.teardown()
        finally:  # the end judges the history and may fail
            machine.runner.close()
            shutil.rmtree(machine.folder, ignore_errors=True)


@pytest.mark.parametrize(
    "steps", [_LOST, _FLUSHED_AFTER, _HELD], ids=["lost", "flushed-after", "held"]
)
def test_the_steps_of_the_planted_faults_hold_without_them(steps: Steps) -> None:
    _run(SharedFlushes(), steps)


@pytest.mark.parametrize(
    ("machine", "steps"),
    [
        (_with_store(_ReadsAreDurable), _HELD),
        (_with_store(_AppendsAreDurable), _HELD),
        (_with_store(_FlushesForget), _FLUSHED_AFTER),
        (_with_engine(_KeepsState), _LOST),
        (_with_engine(_ForgetsCallers), _LOST),
    ],
    ids=[
        "published-at-written",
        "acknowledged-before-the-flush",
        "crash-forgotten",
        "state-kept",
        "lost-and-acknowledged",
    ],
)
def test_the_machine_finds_a_planted_fault(machine: type[SharedFlushes], steps: Steps) -> None:
    with pytest.raises(AssertionError):
        _run(machine(), steps)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "machine",
    [
        _with_store(_ReadsAreDurable),
        _with_store(_AppendsAreDurable),
        _with_store(_FlushesForget),
        _with_engine(_KeepsState),
        _with_engine(_ForgetsCallers),
        _with_engine(_RepeatsKept),
        _with_journal(_ConfirmsLater),
    ],
    ids=[
        "published-at-written",
        "acknowledged-before-the-flush",
        "crash-forgotten",
        "state-kept",
        "lost-and-acknowledged",
        "kept-and-repeated",
        "confirmed-later",
    ],
)
def test_the_search_alone_finds_a_planted_fault(machine: type[SharedFlushes]) -> None:
    with capture_logs(), pytest.raises(AssertionError):
        run_state_machine_as_test(seed(1)(machine), settings=_SEARCH)
