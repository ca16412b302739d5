"""Commands that share one append: what is decided of them, one after the other.

A refused command fails alone; the others are judged on the state that the ones before would leave.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from keyhouse.base.errors import Refused
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.commands import (
    AcknowledgeUpdate,
    Command,
    InitiateUpdate,
    SetManifest,
    Stale,
)
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.events import Event
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import State
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.engine.view import View
from keyhouse.journal import Unencodable

__all__ = ["Decided", "Decision", "Waiting", "decide_batch", "goes_alone", "new_dek"]


class Decision(NamedTuple):
    """What became of a command."""

    view: View  # that holds it
    before: State  # that it was decided on


class Waiting(NamedTuple):
    """A command, and who is answered."""

    command: Command
    answer: "asyncio.Future[Decision] | None"  # None: nobody waits


class Accepted(NamedTuple):
    """A command that will have happened once the batch is durable."""

    waiting: Waiting
    before: State


class Failed(NamedTuple):
    """A command of which nothing happens."""

    waiting: Waiting
    error: Exception


class Decided(NamedTuple):
    """A batch after its decisions: who will be answered what, what happened, what then holds."""

    accepted: list[Accepted]
    refused: list[Failed]
    events: list[Event]
    payloads: list[bytes]  # the events, encoded; none of a command that goes alone
    state: State


def decide_batch(batch: Sequence[Waiting], state: State, context: Context) -> Decided:
    """Judge each command of ``batch`` on the state that the ones before it would leave."""
    accepted: list[Accepted] = []
    refused: list[Failed] = []
    events: list[Event] = []
    payloads: list[bytes] = []
    for waiting in batch:
        try:
            happened = decide(state, waiting.command, context)
            # A list, so that a command which cannot be encoded leaves nothing of it behind.
            encoded = [] if goes_alone(waiting.command) else list(encode_events(happened))
        except (Refused, Stale, Unencodable) as refusal:
            refused.append(Failed(waiting, refusal))
        else:
            accepted.append(Accepted(waiting, state))
            state = evolve_all(state, happened)
            events += happened
            payloads += encoded
    return Decided(accepted, refused, events, payloads, state)


def goes_alone(command: Command) -> bool:
    """Tell whether ``command`` begins a journal, or an epoch of it, so that nothing goes with it.

    A full update does: what it removes is then really gone from the disk, and only the shares that
    it leaves can open what is there.
    """
    if isinstance(command, InitiateUpdate | AcknowledgeUpdate):
        return command.application is not None
    return isinstance(command, SetManifest)


def new_dek(command: Command) -> Secret | None:
    """Return the data key that ``command`` brings for the next epoch; None if the present stays."""
    if isinstance(command, InitiateUpdate | AcknowledgeUpdate) and command.application:
        return command.application.dek
    return None
