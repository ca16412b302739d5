"""Monotonic counters of workloads.

Source: wire reference, "Monotonic counters".
"""

from keyhouse.coordinator import Engine, Operation, Running, SetCounter, View, counter_of
from keyhouse.manifest import Anchored, FeatureGate
from keyhouse.server.services.access import identify_marble, require_enabled


class Counters:
    """The counters in the state of ``engine``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def raise_to(self, identity: bytes | None, name: str, value: int) -> tuple[int, View]:
        """Raise a counter of the workload that calls, if it is lower; return its value before.

        What is returned is durable.
        """
        view = self._engine.view
        require_enabled(view, Operation.COUNT, FeatureGate.MONOTONIC_COUNTER)
        state = view.running
        caller = identify_marble(state, identity, now=self._engine.now())
        marble = (caller.marble_type, caller.uuid)
        command = SetCounter(state.keys.marble_root_cert, marble, name, value)
        decision = await self._engine.decision(command)
        await self._engine.lease.anchor(Anchored.COUNTERS)
        assert isinstance(decision.before, Running)  # noqa: S101 it was decided
        return counter_of(decision.before, marble, name), decision.view
