"""What the Client API changes, whatever the version of its shapes: prepare, submit, wait."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import structlog

from keyhouse.api.exchange import Head
from keyhouse.api.request_body import require_size
from keyhouse.api.service import INLINE, Service
from keyhouse.coordinator import (
    Operation,
    Running,
    SetManifest,
    Stale,
    UpdatePackages,
    UploadSecrets,
    View,
    phase_of,
    prepare_manifest,
    prepare_update,
    prepare_upload,
    require,
)
from keyhouse.wire.errors import Invalid, Problem, Unavailable
from keyhouse.wire.user_secret import UserSecret

__all__ = ["ReadManifest", "ReadUploads", "set_manifest", "update_manifest", "write_secrets"]

log = structlog.get_logger(__name__)

Prepared = TypeVar("Prepared", SetManifest, UploadSecrets, UpdatePackages)

ReadManifest = Callable[[bytes], bytes]
"""Takes the manifest out of a request's body; raises ``BadRequest``."""

ReadUploads = Callable[[bytes], Mapping[str, UserSecret]]
"""Takes the uploads out of a request's body; raises ``BadRequest``."""

ATTEMPTS: Final = 3
"""Preparations of one request before it is told that others change the state too fast."""

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
            return prepare_manifest(state, raw, now=service.engine.now())

        return await _submitted(service, prepare, off_loop=True)

    command, view = await service.one_manifest_at_a_time(work)
    for warning in command.warnings:
        log.warning("the manifest was accepted with a warning", warning=str(warning))
    return command, view


async def write_secrets(service: Service, head: Head, body: bytes, read: ReadUploads) -> View:
    """Store what a user uploads, all of it or nothing; return the view that holds it."""

    def prepare() -> UploadSecrets:
        view = service.engine.view
        require(Operation.WRITE_SECRETS, view.phase)
        uploads = read(body)
        if not uploads:
            raise Invalid("the upload", [Problem("secrets", "is missing or empty", _SECRETS_HINT)])
        require_size(sum(upload.size for upload in uploads.values()))
        return prepare_upload(view.running, head.identity, uploads)

    _, view = await _submitted(service, prepare, off_loop=len(body) > INLINE)
    return view


async def update_manifest(service: Service, head: Head, body: bytes, read: ReadManifest) -> View:
    """Raise security versions of packages; return the view that holds them."""
    raw = await service.off_loop(lambda: _sized(read(body)))

    def prepare() -> UpdatePackages:
        view = service.engine.view
        require(Operation.UPDATE, view.phase)
        return prepare_update(view.running, head.identity, raw, now=service.engine.now())

    _, view = await _submitted(service, prepare, off_loop=True)
    return view


def _sized(raw: bytes) -> bytes:
    require_size(len(raw))
    return raw


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
