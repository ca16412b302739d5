"""Replicas of one store under the failures of a distributed store.

Oracle: the invariants of ``support.replicas.machine`` after each step. A case is the seed of ten
runs with up to 60 steps each.
"""

from random import Random
from typing import ClassVar, Final

from fuzz.target import FindingError, Target
from hypothesis import HealthCheck, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from support.captured_log import capture_logs
from support.replicas.flushes import SharedFlushes
from support.replicas.machine import Replicas

__all__ = ["FlushTarget", "ReplicaTarget"]

_SETTINGS: Final = settings(
    max_examples=10,
    stateful_step_count=60,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
)


class ReplicaTarget(Target):
    """Changes on several replicas. Their store fails, forks, and loses or hides records."""

    name: ClassVar[str] = "replicas"
    about: ClassVar[str] = "replicas on a store that delays, loses records, forks, answers late"
    patience: ClassVar[float] = 120.0
    machine: ClassVar[type[Replicas]] = Replicas

    def draw(self, chance: Random) -> bytes:
        """Return a seed."""
        return chance.randbytes(8)

    def judge(self, case: bytes) -> str:
        """Run the state machine with the seed."""
        try:
            with capture_logs():
                machine = seed(int.from_bytes(case, "big"))(self.machine)
                run_state_machine_as_test(machine, settings=_SETTINGS)
        except AssertionError as broken:
            raise FindingError("".join(getattr(broken, "__notes__", ["an invariant"]))) from broken
        return "all invariants held"


class FlushTarget(ReplicaTarget):
    """The same replicas with appends before the flush. The database crashes between both."""

    name: ClassVar[str] = "flushes"
    about: ClassVar[str] = "replicas with shared flushes, on a database that loses unflushed data"
    machine: ClassVar[type[Replicas]] = SharedFlushes
