"""Updates of the manifest: plan, proposal, agreement of the required users, cancellation."""

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

        Raises ``CannotBeAppliedError`` if the manifest cannot take effect. Then it is not pending
        any more.
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
                hint="the user may have seen a forked log: compare that log with the log of this"
                " coordinator (keyhouse log mirror)",
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
