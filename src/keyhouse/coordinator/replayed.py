"""What a journal's records make, from the base on."""

from typing import NamedTuple

from keyhouse.coordinator.evolve import evolve_all
from keyhouse.coordinator.records import decode_events
from keyhouse.coordinator.state import Running
from keyhouse.coordinator.update_log import UpdateLog
from keyhouse.journal import Replay
from keyhouse.wire.errors import Broken

__all__ = ["Replayed", "replayed"]


class Replayed(NamedTuple):
    """The state and the update log that the records of a journal lead to."""

    state: Running
    log: UpdateLog


def replayed(replay: Replay) -> Replayed:
    """Return what ``replay`` makes. Raises ``Broken`` if that is no state with a manifest."""
    update_log = UpdateLog()
    state = None
    for event in decode_events(replay.base + replay.events):
        state = evolve_all(state, (event,))
        update_log.extend((event,))
    if not isinstance(state, Running):
        raise Broken("the journal holds no manifest", hint="restore a backup")
    return Replayed(state, update_log)
