"""Recovery: with enough shares, the state is opened, checked, announced and sealed.

The order matters. Nothing is written before the whole recovered state has been checked and all that
serving needs is ready. Then the ``Started`` record is written, then the sealed key: after a crash
between them the coordinator is in recovery mode, with one more record. A failure before that leaves
the store locked as it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec

from keyhouse.authority import CoordinatorKeys, SubmittedShare
from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import LogBegun
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.phases import Operation, phase_of, require
from keyhouse.coordinator.core.publishing import leaves_of, start_events
from keyhouse.coordinator.core.state import Recovering, Running, State
from keyhouse.coordinator.core.update_log import LogView, UpdateLog
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.current import at
from keyhouse.coordinator.engine.log_signing import LateLog
from keyhouse.coordinator.engine.records import LogTail, encode_events, rebuild
from keyhouse.coordinator.engine.recovery_check import (
    OpenedWith,
    RecoveryRefusedError,
    check_recovered,
)
from keyhouse.coordinator.engine.start_quotes import StartQuotes
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.journal import LogStore, Opened
from keyhouse.transparency.tree import Frontier

MakeReady = Callable[[CoordinatorKeys], Awaitable[Callable[[], None]]]
"""Prepares all that serving under recovered keys needs; the returned function begins to serve."""


class Recovery(msgspec.Struct, frozen=True):
    """Enough admitted shares, and the data key that they gave. None of it is proven yet."""

    dek: Secret
    submitted: tuple[SubmittedShare, ...]
    make_ready: MakeReady


class Recovered(msgspec.Struct, frozen=True):
    """The recovered state. ``serve`` is called when it is published."""

    state: State
    log: UpdateLog
    clock: SecurityClock
    serve: Callable[[], None]


async def recover(
    writer: JournalWriter,
    state: State,
    recovery: Recovery,
    context: Context,
    clock: SecurityClock,
    quotes: StartQuotes,
) -> Recovered:
    """Return the recovered state, which is durable and sealed for this platform.

    Raises:
        RefusedError: the state may not be recovered here. The store is locked as before.
        UnavailableError: it could not be read or written now. The store is locked as before.
        BrokenError: it is not known what is durable.
    """
    require(Operation.RECOVER, phase_of(state))
    assert isinstance(state, Recovering)  # noqa: S101 the table says so
    try:
        with _faults_of_the_journal():
            opened = await writer.unlock(recovery.dek)
            running, update_log, tail = await asyncio.to_thread(
                _checked, opened, state, recovery, context
            )
            clock = clock.after(running.time)
            serve = await recovery.make_ready(running.keys)
        now, position = clock.now(), opened.journal.position
        context = msgspec.structs.replace(context, now=now, at=at(position))
        public_log, begun = await _log_of(writer, running, update_log.view(), tail, context)
        holders = [each.name for each in recovery.submitted]
        begins = start_events(running, context, begun, holders)
        old = running.public_log if begun is None else None
        frontier = Frontier() if old is None else old.frontier
        started = await quotes.kept(begins, frontier, running.keys.root_cert, public_log)
        await writer.take_over(opened, encode_events(started), running, public_log)
    except BaseException:
        await writer.relock()
        raise
    log.warning("the state was recovered", shares_of=holders)
    public_log.extend(leaves_of(started))
    update_log.extend(started)
    return Recovered(evolve_all(running, started), update_log, clock, serve)


async def _log_of(
    writer: JournalWriter, state: Running, log: LogView, tail: LogTail, context: Context
) -> tuple[LogStore, LogBegun | None]:
    """Return the transparency log of ``state``, and the event that begins it if one has to."""
    if state.public_log is not None and not context.begins_log(state.public_log):
        return await writer.opened_log(state.public_log.verifier, tail), None
    late = LateLog.of(state, log, context.now)
    return await writer.new_log(late.begun.verifier, late.objects), late.begun


@contextmanager
def _faults_of_the_journal() -> Iterator[None]:
    """Turn errors into refusals: a journal that the host made up must not stop the coordinator."""
    try:
        yield
    except (RefusedError, UnavailableError):
        raise
    except KeyhouseError as error:  # a wrong key, a damaged record, a clock too far ahead
        raise RecoveryRefusedError(
            f"the state cannot be recovered: {error.message}", hint=error.hint
        ) from error
    except Exception as error:  # noqa: BLE001 data of the host may fail anywhere
        log.warning("a state could not be recovered", error=type(error).__qualname__)
        raise RecoveryRefusedError(
            "the state cannot be recovered: it is not one that Keyhouse wrote",
            hint="restore the state directory from a backup",
        ) from None


def _checked(
    opened: Opened, state: Recovering, recovery: Recovery, context: Context
) -> tuple[Running, UpdateLog, LogTail]:
    """Return the state in the journal, if these shares may recover it. Writes nothing."""
    journal = opened.journal
    tail = LogTail()
    running, update_log = rebuild(opened.replay.base + opened.replay.events, tail)
    proofs = OpenedWith(
        index=state.recovery_index,
        index_on_disk=opened.recovery_index,
        store_id=journal.store_id,
        epoch=journal.position.epoch,
        mac_key=journal.index_mac_key(journal.position.epoch),
        submitted=recovery.submitted,
        platform=context.platform,
        claim=context.first_manifest.claim,
    )
    check_recovered(running, proofs)
    return running, update_log, tail
