"""Set the first manifest, and update it: plan, proposal, agreement of the users, cancellation.

Everybody may upload a first manifest, and these uploads are handled one at a time. Each command is
prepared off the event loop, and prepared again if the state changes meanwhile.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.log import log
from keyhouse.coordinator import (
    AcknowledgeUpdate,
    ApprovalOutdatedError,
    ApprovalRefusedError,
    Approved,
    CancelUpdate,
    CannotBeAppliedError,
    Command,
    Engine,
    InitiateUpdate,
    Operation,
    Running,
    SetManifest,
    UpdatePackages,
    View,
    phase_of,
    policy_of,
    read_approval,
    require,
    until_current,
)
from keyhouse.coordinator.lease import HeldError
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, FairQueue
from keyhouse.server.services.recovery import RecoverySession

PREPARED_AT_ONCE: Final = 2
"""Threads for the parsing of requests and the preparation of commands."""

T = TypeVar("T")
Prepared = TypeVar("Prepared", bound=Command)


class Preparation:
    """The threads of all use cases that prepare a change. Use on the event loop's thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(PREPARED_AT_ONCE, thread_name_prefix="prepare")

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, which runs in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def submitted(self, prepare: Callable[[], Prepared]) -> tuple[Prepared, View]:
        """Return the command that ``prepare`` returns, and the first view with its effect.

        ``prepare`` runs in a thread. It is called again if the state changes before the decision
        about its command.
        """

        async def change() -> tuple[Prepared, View]:
            command = await self.off_loop(prepare)
            application = getattr(command, "application", None)  # of an update that takes effect
            if application is not None:
                await self._engine.require_readers(application.manifest)
            return command, await self._engine.submit(command)

        too_fast = "the state changes faster than this request can be prepared"
        return await until_current(change, too_fast=too_fast)

    def close(self) -> None:
        """End the threads that prepare changes."""
        self._threads.shutdown(wait=False, cancel_futures=True)


if TYPE_CHECKING:
    from keyhouse.wire.plan import PlanData

PLANS: Final = 16
"""Largest number of plans in progress or waiting. One plan at a time is computed."""


class Proposal(msgspec.Struct, frozen=True):
    """A proposed or approved manifest, the digest of its plan, and the approval.

    Plan and approval are optional.
    """

    manifest: bytes
    # 64 lower-case hex digits, or "".
    plan: str = ""
    # A DSSE envelope.
    approval: bytes | None = None


class Agreement(msgspec.Struct, frozen=True):
    """The progress of an update. With 0 ``missing``, the update is applied or cancelled.

    ``missing``: the number of missing acknowledgements. ``witnessed``: whether a quorum of the
    witnesses has cosigned the change; None without witnesses.
    """

    view: View
    missing: int = 0
    missing_users: tuple[str, ...] = ()
    witnessed: bool | None = None
    # By key name, if the update renewed the recovery secrets.
    recovery_secrets: dict[str, bytes] = {}
    notes: tuple[str, ...] = ()


class Updates:
    """Updates the manifest of ``engine``.

    In all methods, ``read`` decodes the caller's body in a thread, and may raise
    ``BadRequestError``. ``identity`` is the DER of the caller's certificate.
    """

    def __init__(self, engine: Engine, preparation: Preparation) -> None:
        self._engine = engine
        self._preparation = preparation
        self._plans = BoundedExecutor("plan", ConcurrencyLimit(PLANS, "other plans are being made"))

    async def plan(
        self, identity: bytes | None, read: Callable[[], bytes]
    ) -> "tuple[PlanData, View]":
        """Return the effects of an update to the manifest that ``read`` returns.

        Also return the view whose manifest was compared. ``identity``: the certificate (DER) of the
        user.
        """

        def work() -> "tuple[PlanData, View]":
            from keyhouse.coordinator import prepare_plan

            raw = read()
            view = self._engine.view
            state = view.running_for(Operation.UPDATE)
            return prepare_plan(state, identity, raw, now=self._engine.current.now()), view

        return await self._plans.run(work)

    async def propose(self, identity: bytes | None, read: Callable[[], Proposal]) -> Agreement:
        """Handle the uploaded update that ``read`` returns.

        The update raises security versions, or proposes a manifest. ``identity``: the certificate
        (DER) of the user.
        """
        sent = await self._preparation.off_loop(read)
        approved = await self._approved(identity, sent.approval)

        def prepare() -> UpdatePackages | InitiateUpdate:
            from keyhouse.coordinator import SentUpdate, prepare_update

            state = self._engine.view.running_for(Operation.UPDATE)
            bound = SentUpdate(identity, sent.manifest, sent.plan, approved)
            return prepare_update(state, bound, now=self._engine.current.now())

        command, view = await self._preparation.submitted(prepare)
        notes = tuple(map(str, command.warnings))
        if isinstance(command, UpdatePackages):
            return await self._witnessed(Agreement(view, notes=notes))
        return await self._witnessed(_agreement(view, command, (*command.notes, *notes)))

    async def acknowledge(self, identity: bytes | None, read: Callable[[], Proposal]) -> Agreement:
        """Agree to the pending manifest. The last required agreement applies the manifest.

        Raises ``CannotBeAppliedError`` if the manifest cannot take effect. Then the update is
        cancelled.
        """
        sent = await self._preparation.off_loop(read)
        approved = await self._approved(identity, sent.approval)

        def prepare() -> AcknowledgeUpdate:
            from keyhouse.coordinator import SentUpdate, prepare_acknowledgement

            state = self._engine.view.running_for(Operation.ACKNOWLEDGE)
            bound = SentUpdate(identity, sent.manifest, sent.plan, approved)
            return prepare_acknowledgement(state, bound, now=self._engine.current.now())

        try:
            command, view = await self._preparation.submitted(prepare)
        except CannotBeAppliedError:
            # Another user may have cancelled or replaced the update meanwhile.
            with suppress(RefusedError):
                await self._engine.submit(CancelUpdate(identity=None, manifest=sent.manifest))
            raise
        notes = command.application.notes if command.application else ()
        return await self._witnessed(_agreement(view, command, notes))

    async def cancel(self, identity: bytes, read: Callable[[], bytes | None]) -> Agreement:
        """Cancel the pending manifest. Return an agreement without missing users.

        ``read`` returns the caller's approval of the cancellation, or None.
        """
        approved = await self._approved(identity, await self._preparation.off_loop(read))

        def prepare() -> CancelUpdate:
            from keyhouse.coordinator import prepare_cancellation

            state = self._engine.view.running_for(Operation.CANCEL)
            return prepare_cancellation(state, identity, approved)

        _, view = await self._preparation.submitted(prepare)
        return await self._witnessed(Agreement(view))

    async def _witnessed(self, agreement: Agreement) -> Agreement:
        """Wait some seconds for cosignatures of the change. Return ``agreement`` with the outcome.

        If the manifest requires witnesses and a decision has no quorum yet, the answer leaves out
        new recovery secrets, and a note states the reason.
        """
        lease = self._engine.lease
        agreement = msgspec.structs.replace(agreement, witnessed=await lease.wait_cosigned())
        try:
            lease.require_decisions()
        except HeldError as held:
            if agreement.recovery_secrets:
                notes = (*agreement.notes, f"the recovery secrets are held: {held.message}")
                agreement = msgspec.structs.replace(agreement, recovery_secrets={}, notes=notes)
        return agreement

    async def _approved(self, identity: bytes | None, envelope: bytes | None) -> Approved | None:
        """Return the caller's verified approval in ``envelope``; None if the caller signed none.

        The head of the log in the approval must be a head of this log. ``identity``: the
        certificate (DER) of the caller.

        Raises ``ApprovalRefusedError``, ``ApprovalOutdatedError``, ``UnavailableError``.
        """
        # A caller without a certificate is refused later in any case.
        if identity is None or envelope is None:
            return None
        policy_of(self._engine.view.running.manifest).identify(identity)
        approved = await self._preparation.off_loop(lambda: read_approval(envelope, identity))
        log, size = self._engine.view.running.public_log, approved.approval.head.size
        if log is None or size > log.frontier.size:
            raise ApprovalOutdatedError(
                f"the approval names a head of {size} leaves; this coordinator has a shorter log"
            )
        # This holds even if the files of the log are damaged.
        here = size == log.frontier.size
        root = log.frontier.root if here else await self._engine.writer.public_log.root_at(size)
        if root.hex() != approved.approval.head.root:
            raise ApprovalRefusedError(
                "the approval names a head that the log of this coordinator never had",
                hint="compare the user's log with the log of this coordinator (keyhouse log"
                " mirror): the user may have seen a forked log",
            )
        return approved

    def close(self) -> None:
        """End the thread that prepares updates."""
        self._plans.close()


def _agreement(
    view: View, command: InitiateUpdate | AcknowledgeUpdate, notes: tuple[str, ...]
) -> Agreement:
    pending = view.running.pending
    if pending is not None and pending.manifest == command.manifest:
        return Agreement(view, pending.missing, pending.missing_users, notes=notes)
    applied = command.application
    secrets = applied.recovery.ciphertexts if applied and applied.dek is not None else {}
    return Agreement(view, recovery_secrets=secrets, notes=notes)


FIRST_WAITING: Final = 12_000
"""Largest number of waiting first manifests. Everybody may upload a first manifest.

The number equals the largest number of connections, and connections take turns.
"""


class Enforced(msgspec.Struct, frozen=True):
    """The result of an upload of the first manifest: the manifest is in force."""

    view: View
    recovery_secrets: dict[str, bytes]  # encrypted, by the name of the recovery key
    warnings: tuple[str, ...]  # for the users of the manifest


class FirstManifest:
    """Sets the first manifest of a deployment on ``engine``.

    In recovery mode, this manifest begins a new deployment. So each success ends the session
    ``recovery``, which drops all submitted shares.
    """

    def __init__(
        self,
        engine: Engine,
        preparation: Preparation,
        recovery: RecoverySession | None = None,
    ) -> None:
        self._engine = engine
        self._preparation = preparation
        self._recovery = recovery
        limit = ConcurrencyLimit(FIRST_WAITING + 1, "other manifests are being prepared")
        self._queue = FairQueue(limit)

    async def set(self, read: Callable[[], bytes]) -> Enforced:
        """Return after the manifest that ``read`` returns is in force.

        A thread calls ``read`` when it is this caller's turn. If the caller disconnects before its
        turn, there is no effect. A started attempt continues to its end.

        Raises:
            WrongPhaseError, ForbiddenError, InvalidError: the manifest is refused.
            UnavailableError: too many callers wait, or the clock is not trusted.
        """
        return await self._queue.run(lambda: self._set(read))

    async def _set(self, read: Callable[[], bytes]) -> Enforced:
        command, view = await self._submitted(read)
        if self._recovery is not None:
            self._recovery.end()
        warnings = (*map(str, command.warnings), *policy_of(command.manifest).caveats)
        for warning in warnings:
            log.warning("the manifest was accepted with a warning", warning=warning)
        return Enforced(view, command.recovery.ciphertexts, warnings)

    async def _submitted(self, read: Callable[[], bytes]) -> tuple[SetManifest, View]:
        engine, raw = self._engine, await self._preparation.off_loop(read)

        def prepare() -> SetManifest:
            from keyhouse.coordinator import prepare_manifest

            state = engine.view.state
            require(Operation.SET_MANIFEST, phase_of(state))
            assert not isinstance(state, Running)  # noqa: S101 the table says so
            engine.process.first_manifest.require(state, raw)
            engine.current.clock.require_near()
            return prepare_manifest(state, raw, now=engine.current.now())

        return await self._preparation.submitted(prepare)
