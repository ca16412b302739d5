"""Decide the commands of one append, one after the other.

A refused command fails alone. Each other command is decided on the state after the commands before
it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core import commands
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.events import Event, Published, SecretsUploaded
from keyhouse.coordinator.core.evolve import evolve_all, with_leaves
from keyhouse.coordinator.core.publishing import Publishing, objects_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.engine.current import View
from keyhouse.coordinator.engine.records import EVENTS
from keyhouse.journal import UnencodableError

_AGREEMENTS: Final = (commands.InitiateUpdate, commands.AcknowledgeUpdate)


class Decision(msgspec.Struct, frozen=True):
    """The result of a command whose events are durable."""

    view: View  # contains the change
    before: State  # the state before the decision


class WaitingCommand(msgspec.Struct, frozen=True):
    """A command, and the caller that waits for it."""

    command: commands.Command
    answer: "asyncio.Future[Decision] | None"  # None: no caller waits


class AcceptedCommand(msgspec.Struct, frozen=True):
    """A decided command, which takes effect when the events of the batch are durable."""

    waiting: WaitingCommand
    before: State


class DecidedBatch(msgspec.Struct, frozen=True):
    """A batch after its decisions: the answers, the events, and the state after the events."""

    accepted: list[AcceptedCommand]
    refused: list[tuple[WaitingCommand, Exception]]  # commands without effect
    events: list[Event]
    payloads: list[bytes]  # the encoded events; empty if the command goes alone
    state: State
    objects: list[bytes]  # named by the leaves


def decide_batch(batch: Sequence[WaitingCommand], before: State, context: Context) -> DecidedBatch:
    """Decide each command of ``batch`` on the state after the commands before it."""
    state = before
    accepted: list[AcceptedCommand] = []
    refused: list[tuple[WaitingCommand, Exception]] = []
    events: list[Event] = []
    causes: list[WaitingCommand] = []  # the command of each event
    objects: list[bytes] = []
    publishing = Publishing(context)
    for waiting in batch:
        try:
            happened = decide(state, waiting.command, context)
        except (RefusedError, commands.StaleError) as refusal:
            refused.append((waiting, refusal))
        else:
            accepted.append(AcceptedCommand(waiting, state))
            publishing.add(state, waiting.command, happened)
            state = evolve_all(state, happened)
            events += happened
            causes += [waiting] * len(happened)
            objects += objects_of(waiting.command, happened)
    if isinstance(state, Running) and state.public_log and (leaves := publishing.finish()):
        state = with_leaves(state, leaves)
        if events and isinstance(last := events[-1], SecretsUploaded):
            events[-1] = replace(last, leaves=leaves)
        else:
            events.append(Published(leaves))
            causes.append(accepted[-1].waiting)
    payloads: list[bytes] = []
    alone = bool(accepted) and goes_alone(accepted[0].waiting.command)
    for event, cause in zip(() if alone else events, causes, strict=False):
        try:
            payloads.append(EVENTS.encode_checked(event))
        except UnencodableError as error:
            # The commands after it were decided on its state, so all others are decided again.
            again = decide_batch([each for each in batch if each is not cause], before, context)
            return replace(again, refused=[*again.refused, (cause, error)])
    return DecidedBatch(accepted, refused, events, payloads, state, objects)


def goes_alone(command: commands.Command) -> bool:
    """Tell whether ``command`` begins a journal or an epoch, and so needs its own batch.

    A full update begins an epoch. The removed data is then deleted from the disk, and only the
    remaining shares can open the new epoch.
    """
    if isinstance(command, _AGREEMENTS):
        return command.application is not None
    return isinstance(command, commands.SetManifest)


def new_dek(command: commands.Command) -> Secret | None:
    """Return the data key of ``command`` for the next epoch; None if the key does not change."""
    if isinstance(command, _AGREEMENTS) and command.application:
        return command.application.dek
    return None
