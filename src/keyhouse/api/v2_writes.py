"""What version 2 of the Client API changes: read the body, prepare, submit, wait, answer."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
import structlog

from keyhouse.api.exchange import Answer, Head
from keyhouse.api.request_body import read_body, require_size
from keyhouse.api.service import INLINE, Service
from keyhouse.coordinator import (
    Operation,
    Running,
    SetManifest,
    Stale,
    UploadSecrets,
    View,
    phase_of,
    prepare_manifest,
    prepare_upload,
    require,
)
from keyhouse.wire.client_api import ManifestBody, SecretsBody
from keyhouse.wire.errors import Invalid, NotYet, Problem, Unavailable

__all__ = ["not_yet", "set_manifest", "write_secrets"]

log = structlog.get_logger(__name__)

Prepared = TypeVar("Prepared", SetManifest, UploadSecrets)

ATTEMPTS: Final = 3
"""Preparations of one request before it is told that others change the state too fast."""

_MANIFEST_HINT: Final = 'send {"manifest": its JSON text in base64}'
_SECRETS_HINT: Final = "send at least one secret by its name"


async def set_manifest(service: Service, head: Head, body: bytes) -> Answer:
    """Enforce the first manifest; answer the recovery secrets for the holders of the keys."""
    del head

    async def work() -> tuple[SetManifest, View]:
        raw = (await service.off_loop(lambda: read_body(body, ManifestBody))).manifest
        require_size(len(raw))
        if not raw:
            raise Invalid("the manifest", [Problem("", "is missing or empty", _MANIFEST_HINT)])

        def prepare() -> SetManifest:
            state = service.engine.view.state
            require(Operation.SET_MANIFEST, phase_of(state))
            assert not isinstance(state, Running)  # noqa: S101 the table says so
            return prepare_manifest(state, raw, now=service.engine.now())

        return await _submitted(service, prepare, off_loop=True)

    command, view = await service.one_manifest_at_a_time(work)
    for warning in command.warnings:
        log.warning("the manifest was accepted with a warning", warning=str(warning))
    secrets = {holder.name: holder.ciphertext for holder in command.recovery.holders}
    data = {"RecoverySecrets": secrets, "recoveryKeys": secrets} if secrets else {}
    message = "; ".join(f"warning: {warning}" for warning in command.warnings)
    return service.success(msgspec.json.encode(data), view, message)


async def write_secrets(service: Service, head: Head, body: bytes) -> Answer:
    """Store what a user uploads: all of it or nothing."""

    def prepare() -> UploadSecrets:
        view = service.engine.view
        require(Operation.WRITE_SECRETS, view.phase)
        uploads = read_body(body, SecretsBody).secrets
        if not uploads:
            raise Invalid("the upload", [Problem("secrets", "is missing or empty", _SECRETS_HINT)])
        require_size(sum(upload.size for upload in uploads.values()))
        return prepare_upload(view.running, head.identity, uploads)

    _, view = await _submitted(service, prepare, off_loop=len(body) > INLINE)
    return service.success(b"null", view)


async def _submitted(
    service: Service, prepare: Callable[[], Prepared], *, off_loop: bool
) -> tuple[Prepared, View]:
    """Return the command and the view that holds it; prepared again if the state moved on."""
    for _ in range(ATTEMPTS):
        command = await service.off_loop(prepare) if off_loop else prepare()
        try:
            return command, await service.engine.submit(command)
        except Stale:
            continue
    raise Unavailable("the state changes faster than this request can be prepared", hint="retry")


async def not_yet(service: Service, head: Head, body: bytes) -> Answer:
    """Refuse: this part of the interface is not built yet."""
    del service, body
    raise NotYet(f"{head.method} {head.path} is not implemented in this version of Keyhouse")
