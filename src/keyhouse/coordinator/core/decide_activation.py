"""Whether a workload may be activated or may raise a counter, when that becomes durable: pure.

Activations without a limit are checked against the current view and recorded afterwards, so nothing
is left to refuse here. Those with a limit are checked here again: meanwhile the state that they
were prepared against may have been replaced, and the limit may have been reached.
Source: manifest format, "Marbles"; wire reference, "Monotonic counters".
"""

from typing import Final

from keyhouse.base.errors import ConflictError, ForbiddenError, UnauthenticatedError
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core.commands import Activate, RecordActivations, SetCounter, StaleError
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import CounterSet, Event, MarblesActivated
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running, counter_of
from keyhouse.manifest import FeatureGate

COUNTERS: Final = 1000
"""Monotonic counters of one workload (marble type and UUID)."""


def activate(state: Running, command: Activate) -> tuple[Event, ...]:
    """Return the event of an activation that is counted and audited."""
    if (command.manifest, command.intermediate) != (state.manifest, state.keys.intermediate_cert):
        raise StaleError
    require_below_limit(state, command.activated.marble_type)
    return (MarblesActivated(activations=(command.activated,)),)


def record_activations(command: RecordActivations) -> tuple[Event, ...]:
    """Return the event of activations without a limit, which have happened."""
    return (MarblesActivated(activations=command.activations),)


def require_below_limit(state: Running, marble_type: str) -> None:
    """Raise ``ForbiddenError`` if a type of the manifest was activated as often as it may be."""
    limit = policy_of(state.manifest).manifest.marbles[marble_type].max_activations
    if limit and state.activations.get(marble_type, 0) >= limit:
        raise ForbiddenError(
            f"marble type {quoted(marble_type)} was activated {limit} times,"
            " which is its MaxActivations",
            hint="every start counts, also that of a workload that was activated before;"
            " raise MaxActivations with an update of the manifest",
        )


def set_counter(state: Running, command: SetCounter, context: Context) -> tuple[Event, ...]:
    """Return the event that raises the counter; no event if its value is as high already."""
    if not policy_of(state.manifest).has_gate(FeatureGate.MONOTONIC_COUNTER):
        raise ForbiddenError("counting is not enabled", hint="add MonotonicCounter to FeatureGates")
    if command.marble_root != state.keys.marble_root_cert:
        raise UnauthenticatedError(
            "the workload's certificate is from before an update of the manifest",
            hint="start the workload again",
        )
    if command.value <= counter_of(state, command.marble, command.name):
        return ()
    own = state.counters.get(command.marble)
    if own is not None and len(own) >= COUNTERS and command.name not in own:
        raise ConflictError(
            f"this workload has {COUNTERS} counters, which is the most", hint=_REUSE
        )
    marble_type, uuid = command.marble
    raised = CounterSet(
        time=context.now,
        marble_type=marble_type,
        uuid=uuid,
        name=command.name,
        value=command.value,
    )
    return (raised,)


_REUSE: Final = "counters are never deleted: use fewer names"
