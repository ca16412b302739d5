"""Recover a state with shares: open it, check it, announce the start, and seal the key.

The order matters. Nothing is written before the whole recovered state is checked and everything for
serving is ready. Then the ``Started`` record is written, then the sealed key. After a crash between
the two, the coordinator is in recovery mode with one more record. An earlier failure leaves the
store locked as before.

Before the check, everything depends on the recovery index, which the host could replace. So the
check needs the opened journal. These conditions must hold:

1. The state was made on the platform of this process.
2. The index that verified the shares belongs to this journal: MAC under its data key, store id,
   epoch.
3. The index agrees with the state: root, manifest, holders, threshold. The root key belongs to the
   root certificate, and signed the manifest.
4. The manifest in force has recovery keys, and these keys signed the shares. A state without
   recovery keys cannot be recovered with any key (GHSA-w7wm-2425-7p2h).
5. The number of shares is the number in the manifest, and each share has the signature of a
   different key.
6. The whole line of the root is proven by the quotes of its entries, and begins with the claimed
   manifest (``origin.checks``): the shares reveal the data key, and a holder of the data key can
   write everything else.

A pending update ends, even if all its acknowledgements are signed: a user may have cancelled the
update after the recovered copy was made.

Source: ``docs/explanation/cryptography.md``, "Recovery".
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from keyhouse import authority
from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import LogBegun
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.phases import Operation, phase_of, require
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.publishing import leaves_of, start_events
from keyhouse.coordinator.core.state import Recovering, Running, State
from keyhouse.coordinator.core.update_log import UpdateLog, UpdateLogView
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.current import at
from keyhouse.coordinator.engine.log_signing import LateLog
from keyhouse.coordinator.engine.records import LogTail, encode_events, rebuild
from keyhouse.coordinator.engine.start_proofs import StartQuotes, line_objects, start_line_events
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import LogStore, Opened
from keyhouse.manifest import Manifest, SealMode
from keyhouse.transparency.tree import Frontier

MakeReady = Callable[[authority.CoordinatorKeys], Awaitable[Callable[[], None]]]
"""Prepares all that serving with the recovered keys needs. Its result begins to serve."""


class RecoveryRefusedError(RefusedError):
    """The recovery is refused: the shares or this coordinator do not fit the state."""

    code = "recovery-refused"
    next_step = "restore the state from a backup, or set a manifest for a new deployment"


class OpenedWith(msgspec.Struct, frozen=True):
    """The data from outside the state. The opened state must agree with all of it."""

    index: bytes  # verified the shares
    index_on_disk: bytes  # was beside the journal at its opening
    store_id: bytes  # of the journal
    epoch: int
    mac_key: Secret  # of the data key and the epoch
    submitted: tuple[authority.SubmittedShare, ...]
    platform: str  # of this process


def check_recovered(state: Running, opened: OpenedWith) -> None:
    """Return if ``state`` may be recovered with the data in ``opened``.

    Raises ``RecoveryRefusedError`` or ``ShareRefusedError``; then no part of the state may be kept.
    """
    if state.platform != opened.platform:
        raise RecoveryRefusedError(
            f"the state was made on the platform {state.platform}; this coordinator runs on"
            f" {opened.platform}",
            hint=f"recover the state on {state.platform}: a state cannot move to another kind of"
            " platform",
        )
    index = _proven_index(opened)
    _check_agreement(state, index)
    _check_root(state)
    if policy_of(state.manifest).seal_mode is SealMode.DISABLED:
        raise RecoveryRefusedError(
            "the recovered manifest has SealMode Disabled, but a state with this mode is never"
            " stored"
        )
    _check_keys(state, policy_of(state.manifest).manifest, opened.submitted)


def _proven_index(opened: OpenedWith) -> authority.RecoveryIndex:
    if opened.index != opened.index_on_disk:
        raise _foreign("was changed during the recovery")
    try:
        index = authority.check_index_mac(
            authority.read_recovery_index(opened.index), opened.mac_key
        )
    except authority.IndexDamagedError:
        raise _foreign("does not belong to this data key") from None
    if (index.store_id, index.epoch) != (opened.store_id, opened.epoch):
        raise _foreign("belongs to another journal or another epoch")
    return index


def _check_agreement(state: Running, index: authority.RecoveryIndex) -> None:
    expected = authority.index_of(
        state.recovery,
        state.keys,
        state.manifest,
        store_id=index.store_id,
        epoch=index.epoch,
    )
    if index != expected:
        raise _foreign("contradicts the recovered state")


def _check_root(state: Running) -> None:
    """Raise ``RecoveryRefusedError`` unless the root key belongs to the root certificate.

    The check signs the manifest with the key. The stored signature of the manifest must be valid,
    too.
    """
    root, manifest = state.keys.root_cert, state.manifest
    signatures = (state.signature, authority.sign_manifest(state.keys, manifest))
    if not all(authority.is_signed_by_root(root, signature, manifest) for signature in signatures):
        raise RecoveryRefusedError(
            "the recovered root key has not signed the recovered manifest",
            hint="restore the state from a backup",
        )


def _check_keys(
    state: Running, manifest: Manifest, submitted: tuple[authority.SubmittedShare, ...]
) -> None:
    keys = {name: key.public_key for name, key in manifest.recovery_keys.items()}
    if not keys:
        raise RecoveryRefusedError(
            "the recovered manifest has no recovery keys, so nobody can recover its state",
            hint="set a new manifest for a new deployment",
        )
    if keys != {holder.name: holder.public_key for holder in state.recovery.holders}:
        raise RecoveryRefusedError(
            "the recovery keys in the recovered manifest are not the recovery keys of the shares"
        )
    needed = authority.effective_threshold(len(keys), manifest.config.recovery_threshold)
    if len(submitted) != needed:
        raise RecoveryRefusedError(
            f"the recovered manifest requires {needed} shares; {len(submitted)} were submitted"
        )
    shares = {holder.name: holder.share_hash for holder in state.recovery.holders}
    authority.require_signed(submitted, keys, shares)


def _foreign(problem: str) -> RecoveryRefusedError:
    return RecoveryRefusedError(
        f"the file recovery_index {problem}",
        hint="restore journal.db and recovery_index from one backup; begin the recovery again",
    )


class Recovery(msgspec.Struct, frozen=True):
    """Enough admitted shares, and the data key from them. Nothing about them is proven yet."""

    dek: Secret
    submitted: tuple[authority.SubmittedShare, ...]
    make_ready: MakeReady


class Recovered(msgspec.Struct, frozen=True):
    """The recovered state. ``serve`` is called when the state is published."""

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
    origin: Origin | None,
) -> Recovered:
    """Recover the state from shares; return the state, durable and sealed for this platform.

    ``state``: the present state, in recovery mode. ``recovery``: the shares and the data key.
    ``quotes`` makes the quote about this start. ``origin`` proves the line of the root; None:
    nothing is proven.

    Raises:
        RefusedError: this state may not be recovered here. The store is locked as before.
        UnavailableError: the store could not be read or written now. It is locked as before.
        BrokenError: the durable state is unknown.
    """
    require(Operation.RECOVER, phase_of(state))
    assert isinstance(state, Recovering)  # noqa: S101 the table says so
    try:
        with _faults_of_the_journal():
            opened = await writer.storage.recover(recovery.dek)
            running, update_log, tail = await asyncio.to_thread(
                _checked, opened, state, recovery, context
            )
            clock = clock.after(running.time)
            if origin is not None:
                await origin.require(running, partial(writer.read_object, running))
            serve = await recovery.make_ready(running.keys)
        now, position = clock.now(), opened.journal.position
        context = msgspec.structs.replace(context, now=now, at=at(position))
        public_log, begun = await _log_of(writer, running, update_log.view(), tail, context)
        holders = [each.name for each in recovery.submitted]
        drops = origin is not None
        begins = start_events(running, context, begun, holders, drops_pending=drops)
        old = running.public_log if begun is None else None
        frontier = Frontier() if old is None else old.frontier
        started = await quotes.with_stored_quote(
            begins, frontier, running.keys.root_cert, public_log
        )
        started += await start_line_events(origin, running, context, begun, holders)
        recovered = evolve_all(running, started)
        assert isinstance(recovered, Running)  # noqa: S101 no start ends a deployment
        await writer.adopt_recovered(opened, encode_events(started), recovered, public_log)
    except BaseException:
        await writer.storage.relock()
        raise
    log.warning("the state was recovered", shares_of=holders)
    if drops and running.pending is not None:
        log.warning("the pending update ended with the recovery: propose it again")
    public_log.extend(leaves_of(started))
    update_log.extend(started)
    return Recovered(recovered, update_log, clock, serve)


async def _log_of(
    writer: JournalWriter, state: Running, log: UpdateLogView, tail: LogTail, context: Context
) -> tuple[LogStore, LogBegun | None]:
    """Return the transparency log after the recovery of ``state``, and its first event.

    None in place of the event: the log of ``state`` continues. ``log``: the update log. ``tail``:
    the end of the transparency log in the journal.
    """
    if state.public_log is not None and not context.begins_log(state.public_log):
        return await writer.opened_log(state.public_log.verifier, tail), None
    late = LateLog.of(state, log, context.now)
    objects = [*late.objects, *await line_objects(state, writer)]
    return await writer.new_log(late.begun.verifier, objects), late.begun


@contextmanager
def _faults_of_the_journal() -> Iterator[None]:
    """Turn errors into refusals: a journal invented by the host must not stop the coordinator."""
    try:
        yield
    except (RefusedError, UnavailableError):
        raise
    except KeyhouseError as error:  # a wrong key, a damaged record, or a clock too far ahead
        raise RecoveryRefusedError(
            f"the state cannot be recovered: {error.message}", hint=error.hint
        ) from error
    except Exception as error:  # noqa: BLE001 data of the host may fail anywhere
        log.warning("a state could not be recovered", error=type(error).__qualname__)
        raise RecoveryRefusedError(
            "the state cannot be recovered: the content of the journal is invalid",
            hint="restore the state from a backup",
        ) from None


def _checked(
    opened: Opened, state: Recovering, recovery: Recovery, context: Context
) -> tuple[Running, UpdateLog, LogTail]:
    """Return state, update log and end of the transparency log from the opened journal.

    Raises as ``check_recovered`` if the shares may not recover this state. Writes nothing.
    """
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
    )
    check_recovered(running, proofs)
    return running, update_log, tail
