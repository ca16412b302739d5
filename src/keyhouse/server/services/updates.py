"""Updates of the manifest: planned, proposed, agreed to by those who have to, or cancelled."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.coordinator import (
    AcknowledgeUpdate,
    ApprovalOutdatedError,
    ApprovalRefusedError,
    Approved,
    CancelUpdate,
    CannotBeAppliedError,
    Engine,
    InitiateUpdate,
    Operation,
    UpdatePackages,
    View,
    policy_of,
    read_approval,
)
from keyhouse.coordinator.lease import HeldError
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit
from keyhouse.server.services.preparation import Preparation

if TYPE_CHECKING:
    from keyhouse.wire.plan import PlanData

PLANS: Final = 16
"""Plans that are being made or wait for that; one is made at a time, beside the updates."""


class Proposal(msgspec.Struct, frozen=True):
    """What is proposed or agreed to, the digest of the plan that it is bound to, and an approval.

    The last two may not be given.
    """

    manifest: bytes
    plan: str = ""  # 64 lower-case hex digits, or nothing
    approval: bytes | None = None  # a DSSE envelope


class Agreement(msgspec.Struct, frozen=True):
    """How far an update has come. Nothing missing: it is applied, or cancelled.

    ``witnessed``: whether a quorum of the witnesses knows it; None: there are none.
    """

    view: View
    missing: int = 0
    missing_users: tuple[str, ...] = ()
    witnessed: bool | None = None
    recovery_secrets: dict[str, bytes] = {}  # by key name, if the update renewed them
    notes: tuple[str, ...] = ()


class Updates:
    """Updates the manifest of ``engine``.

    What a caller sends is read on a thread: ``read`` returns it, or raises ``BadRequestError``.
    ``identity`` is the DER of the caller's certificate.
    """

    def __init__(self, engine: Engine, preparation: Preparation) -> None:
        self._engine = engine
        self._preparation = preparation
        self._plans = BoundedExecutor("plan", ConcurrencyLimit(PLANS, "other plans are being made"))

    async def plan(
        self, identity: bytes | None, read: Callable[[], bytes]
    ) -> "tuple[PlanData, View]":
        """Return what an update to a manifest would do, and the view it would be made from."""

        def work() -> "tuple[PlanData, View]":
            from keyhouse.coordinator import prepare_plan

            raw = read()
            view = self._engine.view
            state = view.running_for(Operation.UPDATE)
            return prepare_plan(state, identity, raw, now=self._engine.now()), view

        return await self._plans.run(work)

    async def propose(self, identity: bytes | None, read: Callable[[], Proposal]) -> Agreement:
        """Raise security versions, or initiate a full update; return how far it has come."""
        sent = await self._preparation.off_loop(read)
        approved = await self._approved(identity, sent.approval)

        def prepare() -> UpdatePackages | InitiateUpdate:
            from keyhouse.coordinator import SentUpdate, prepare_update

            state = self._engine.view.running_for(Operation.UPDATE)
            bound = SentUpdate(identity, sent.manifest, sent.plan, approved)
            return prepare_update(state, bound, now=self._engine.now())

        command, view = await self._preparation.submitted(prepare)
        notes = tuple(map(str, command.warnings))
        if isinstance(command, UpdatePackages):
            return await self._told(Agreement(view, notes=notes))
        return await self._told(_agreement(view, command, (*command.notes, *notes)))

    async def acknowledge(self, identity: bytes | None, read: Callable[[], Proposal]) -> Agreement:
        """Agree to the pending manifest; the last agreement that is needed applies it.

        Raises ``CannotBeAppliedError`` if it cannot take effect; then it is not pending any more.
        """
        sent = await self._preparation.off_loop(read)
        approved = await self._approved(identity, sent.approval)

        def prepare() -> AcknowledgeUpdate:
            from keyhouse.coordinator import SentUpdate, prepare_acknowledgement

            state = self._engine.view.running_for(Operation.ACKNOWLEDGE)
            bound = SentUpdate(identity, sent.manifest, sent.plan, approved)
            return prepare_acknowledgement(state, bound, now=self._engine.now())

        try:
            command, view = await self._preparation.submitted(prepare)
        except CannotBeAppliedError:
            with suppress(RefusedError):  # another may have cancelled it, or replaced it, meanwhile
                await self._engine.submit(CancelUpdate(identity=None, manifest=sent.manifest))
            raise
        notes = command.application.notes if command.application else ()
        return await self._told(_agreement(view, command, notes))

    async def cancel(self, identity: bytes, read: Callable[[], bytes | None]) -> Agreement:
        """Give the pending manifest up; return that nothing is missing.

        ``read`` returns the caller's approval of that, if there is one.
        """
        approved = await self._approved(identity, await self._preparation.off_loop(read))

        def prepare() -> CancelUpdate:
            from keyhouse.coordinator import prepare_cancellation

            state = self._engine.view.running_for(Operation.CANCEL)
            return prepare_cancellation(state, identity, approved)

        _, view = await self._preparation.submitted(prepare)
        return await self._told(Agreement(view))

    async def _told(self, agreement: Agreement) -> Agreement:
        """Return ``agreement`` when the witnesses know of it, or have had some seconds for that."""
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
        """Return what the caller has signed, if anything: bound to a head that this log has had.

        Raises ``ApprovalRefusedError``, ``ApprovalOutdatedError``, ``UnavailableError``.
        """
        if identity is None or envelope is None:  # without a certificate it is refused in any case
            return None
        policy_of(self._engine.view.running.manifest).identify(identity)
        approved = await self._preparation.off_loop(lambda: read_approval(envelope, identity))
        log, size = self._engine.view.running.public_log, approved.approval.head.size
        if log is None or size > log.frontier.size:
            raise ApprovalOutdatedError("the head of the approval is not known here")
        here = size == log.frontier.size  # true also if the files of the log are damaged
        root = log.frontier.root if here else await self._engine.public_log.root_at(size)
        if root.hex() != approved.approval.head.root:
            raise ApprovalRefusedError(
                "its head is one that the log of this coordinator never had",
                hint="the user may have been shown another history: compare both heads",
            )
        return approved

    def close(self) -> None:
        """Give the thread back."""
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
