"""The shapes of what version 2 of the Client API changes."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequest, Invalid, Problem
from keyhouse.server.client_api import changes
from keyhouse.server.client_api.agreements import acknowledged, updated
from keyhouse.server.client_api.service import Service
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.wire.client_api import (
    ManifestBody,
    MessageData,
    SecretsBody,
    SetManifestData,
    UpdateBody,
)
from keyhouse.wire.secret_types import UserSecret

__all__ = [
    "acknowledge_update",
    "cancel_update",
    "plan_update",
    "set_manifest",
    "update_manifest",
    "write_secrets",
]

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_MANIFEST_HINT: Final = 'send {"manifest": its JSON text in base64}'


async def set_manifest(service: Service, head: Head, body: bytes) -> Answer:
    """Enforce the first manifest; answer the recovery secrets for the holders of the keys."""
    del head
    command, view = await changes.set_manifest(service, body, _manifest)
    shares = command.recovery.ciphertexts
    data = SetManifestData(shares, shares)
    message = "; ".join(f"warning: {warning}" for warning in changes.warnings_of(command))
    return service.success(data, view, message)


async def write_secrets(service: Service, head: Head, body: bytes) -> Answer:
    """Store what a user uploads: all of it or nothing."""
    view = await changes.write_secrets(service, head, body, _uploads, within="secrets")
    return service.success(None, view)


async def plan_update(service: Service, head: Head, body: bytes) -> Answer:
    """Tell what an update would do, with a digest that it can be bound to. Changes nothing."""
    plan, view = await changes.plan_update(service, head, body, _manifest)
    return service.encoded(await service.off_loop(lambda: msgspec.json.encode(plan)), view)


async def update_manifest(service: Service, head: Head, body: bytes) -> Answer:
    """Raise security versions of packages, or initiate a full update."""
    return updated(service, await changes.update_manifest(service, head, body, _proposal))


async def acknowledge_update(service: Service, head: Head, body: bytes) -> Answer:
    """Agree to the pending manifest."""
    return acknowledged(service, await changes.acknowledge_update(service, head, body, _proposal))


async def cancel_update(service: Service, head: Head, body: bytes) -> Answer:
    """Give the pending manifest up."""
    del body
    view = await changes.cancel_update(service, head)
    return service.success(MessageData(changes.CANCELLED), view)


def _manifest(body: bytes) -> bytes:
    return _given(read_body(body, ManifestBody).manifest)


def _proposal(body: bytes) -> changes.Proposal:
    read = read_body(body, UpdateBody)
    if read.plan is not None and not _DIGEST.fullmatch(read.plan):
        raise BadRequest(
            "the digest of the plan is none",
            fields={"plan": "must be 64 hex digits, in lower case"},
            hint="send the digest that POST /api/v2/plan has answered",
        )
    return changes.Proposal(_given(read.manifest), read.plan or "")


def _given(raw: bytes) -> bytes:
    if not raw:
        raise Invalid("the manifest", [Problem("", "is missing or empty", _MANIFEST_HINT)])
    return raw


def _uploads(body: bytes) -> Mapping[str, UserSecret]:
    return read_body(body, SecretsBody).secrets
