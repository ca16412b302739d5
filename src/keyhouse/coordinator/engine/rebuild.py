"""The state again, from what the journal gave: the same path at every start and every check."""

from collections.abc import Iterable

from keyhouse.base.errors import Broken
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.records import decode_events

__all__ = ["rebuild"]


def rebuild(payloads: Iterable[bytes]) -> tuple[Running, UpdateLog]:
    """Return the state and the update log that ``payloads``, from a base on, make.

    Raises:
        Broken: bytes that are no event, or events that make no state.
    """
    update_log = UpdateLog()
    state: State | None = None
    for event in decode_events(payloads):
        state = evolve_all(state, (event,))
        update_log.extend((event,))
    if not isinstance(state, Running):
        raise Broken("the journal holds no manifest", hint="restore a backup")
    return state, update_log
