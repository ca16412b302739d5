"""What the Client API changes, whatever the version of its shapes: prepare, submit, wait."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
import structlog

from keyhouse.base.errors import Invalid, Problem, Refused
from keyhouse.coordinator import (
    AcknowledgeUpdate,
    CancelUpdate,
    CannotBeApplied,
    Command,
    InitiateUpdate,
    Operation,
    Running,
    SetManifest,
    UpdatePackages,
    UploadSecrets,
    View,
    phase_of,
    policy_of,
    prepare_acknowledgement,
    prepare_manifest,
    prepare_plan,
    prepare_update,
    prepare_upload,
    require,
    until_current,
)
from keyhouse.server.client_api.bodies import still_needed
from keyhouse.server.client_api.service import INLINE, Service
from keyhouse.server.http.body import require_size
from keyhouse.server.http.exchange import Head
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret

__all__ = [
    "Agreement",
    "Proposal",
    "ReadManifest",
    "ReadProposal",
    "ReadUploads",
    "acknowledge_update",
    "cancel_update",
    "plan_update",
    "set_manifest",
    "update_manifest",
    "warnings_of",
    "write_secrets",
]

log = structlog.get_logger(__name__)

Prepared = TypeVar("Prepared", bound=Command)

ReadManifest = Callable[[bytes], bytes]
"""Takes the manifest out of a request's body; raises ``BadRequest``."""


class Proposal(msgspec.Struct, frozen=True):
    """What is proposed or agreed to, and the digest of the plan that it is bound to, if any."""

    manifest: bytes
    plan: str = ""  # 64 lower-case hex digits, or nothing


ReadProposal = Callable[[bytes], Proposal]
"""Takes a proposal out of a request's body; raises ``BadRequest``."""

ReadUploads = Callable[[bytes], Mapping[str, UserSecret]]
"""Takes the uploads out of a request's body; raises ``BadRequest``."""


class Agreement(msgspec.Struct, frozen=True):
    """How far an update has come. Nothing missing: it is applied."""

    view: View
    missing: int = 0
    missing_users: tuple[str, ...] = ()
    recovery_secrets: dict[str, bytes] = {}  # by key name, if the update renewed them
    notes: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Return it in words; clients read the first: ``All``, or a number."""
        if self.missing:
            return still_needed(self.missing)
        return "; ".join(("All necessary users have agreed: the update is applied", *self.notes))


CANCELLED: Final = "the pending update is cancelled"

_SECRETS_HINT: Final = "send at least one secret by its name"


async def set_manifest(
    service: Service, body: bytes, read: ReadManifest
) -> tuple[SetManifest, View]:
    """Enforce the first manifest; return what was done and the view that holds it."""

    async def work() -> tuple[SetManifest, View]:
        raw = await service.off_loop(lambda: _sized(read(body)))

        def prepare() -> SetManifest:
            state = service.engine.view.state
            require(Operation.SET_MANIFEST, phase_of(state))
            assert not isinstance(state, Running)  # noqa: S101 the table says so
            service.engine.first_manifest.require(state, raw)
            service.engine.require_clock()
            return prepare_manifest(state, raw, now=service.engine.now())

        return await _submitted(service, prepare, off_loop=True)

    command, view = await service.one_manifest_at_a_time(work)
    service.recovery.end()
    for warning in warnings_of(command):
        log.warning("the manifest was accepted with a warning", warning=warning)
    return command, view


def warnings_of(command: SetManifest) -> tuple[str, ...]:
    """Return what its users should know of a manifest that was set."""
    return (*map(str, command.warnings), *policy_of(command.manifest).caveats)


async def write_secrets(
    service: Service, head: Head, body: bytes, read: ReadUploads, *, within: str
) -> View:
    """Store what a user uploads, all of it or nothing; return the view that holds it.

    ``within``: the field of the body that holds the uploads; empty if the body is the map.
    """

    def prepare() -> UploadSecrets:
        view = service.engine.view
        require(Operation.WRITE_SECRETS, view.phase)
        uploads = read(body)
        if not uploads:
            raise Invalid("the upload", [Problem(within, "is missing or empty", _SECRETS_HINT)])
        require_size(sum(upload.size for upload in uploads.values()))
        return prepare_upload(view.running, head.identity, uploads, within=within)

    _, view = await _submitted(service, prepare, off_loop=len(body) > INLINE)
    return view


async def plan_update(
    service: Service, head: Head, body: bytes, read: ReadManifest
) -> tuple[PlanData, View]:
    """Return what an update would do, and the view that it would be made from."""

    def work() -> tuple[PlanData, View]:
        raw = _sized(read(body))
        view = service.engine.view
        require(Operation.UPDATE, view.phase)
        now = service.engine.now()
        return prepare_plan(view.running, head.identity, raw, now=now), view

    return await service.plans.take(work)


async def update_manifest(
    service: Service, head: Head, body: bytes, read: ReadProposal
) -> Agreement:
    """Raise security versions, or initiate a full update; return how far it has come."""
    sent = await service.off_loop(lambda: _sized_proposal(read(body)))

    def prepare() -> UpdatePackages | InitiateUpdate:
        view = service.engine.view
        require(Operation.UPDATE, view.phase)
        now = service.engine.now()
        return prepare_update(view.running, head.identity, sent.manifest, now=now, plan=sent.plan)

    command, view = await _submitted(service, prepare, off_loop=True)
    if isinstance(command, UpdatePackages):
        return Agreement(view, notes=tuple(map(str, command.warnings)))
    return _agreement(view, command, (*command.notes, *map(str, command.warnings)))


async def acknowledge_update(
    service: Service, head: Head, body: bytes, read: ReadProposal
) -> Agreement:
    """Agree to the pending manifest; the last agreement that is needed applies it."""
    sent = await service.off_loop(lambda: _sized_proposal(read(body)))

    def prepare() -> AcknowledgeUpdate:
        view = service.engine.view
        require(Operation.ACKNOWLEDGE, view.phase)
        now, raw = service.engine.now(), sent.manifest
        return prepare_acknowledgement(view.running, head.identity, raw, now=now, plan=sent.plan)

    try:
        command, view = await _submitted(service, prepare, off_loop=True)
    except CannotBeApplied:
        await _give_up(service, sent.manifest)
        raise
    return _agreement(view, command, command.application.notes if command.application else ())


async def cancel_update(service: Service, head: Head) -> View:
    """Give the pending manifest up; return the view without it."""
    assert head.identity is not None  # noqa: S101 the route asks for a user
    return await service.engine.submit(CancelUpdate(identity=head.identity, manifest=None))


async def _give_up(service: Service, raw: bytes) -> None:
    """Cancel an update that has all agreement and cannot take effect."""
    with suppress(Refused):  # another may have cancelled it, or replaced it, meanwhile
        await service.engine.submit(CancelUpdate(identity=None, manifest=raw))


def _agreement(
    view: View, command: InitiateUpdate | AcknowledgeUpdate, notes: tuple[str, ...]
) -> Agreement:
    pending = view.running.pending
    if pending is not None and pending.manifest == command.manifest:
        return Agreement(view, pending.missing, pending.missing_users, notes=notes)
    applied = command.application
    secrets = applied.recovery.ciphertexts if applied and applied.dek is not None else {}
    return Agreement(view, recovery_secrets=secrets, notes=notes)


def _sized(raw: bytes) -> bytes:
    require_size(len(raw))
    return raw


def _sized_proposal(proposal: Proposal) -> Proposal:
    require_size(len(proposal.manifest))
    return proposal


async def _submitted(
    service: Service, prepare: Callable[[], Prepared], *, off_loop: bool
) -> tuple[Prepared, View]:
    """Return the command and the view that holds it; prepared again if the state moved on."""

    async def change() -> tuple[Prepared, View]:
        command = await service.off_loop(prepare) if off_loop else prepare()
        return command, await service.engine.submit(command)

    too_fast = "the state changes faster than this request can be prepared"
    return await until_current(change, too_fast=too_fast)
