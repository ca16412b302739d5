"""The shapes of what version 1 of the Client API changes: raw manifests, no envelopes inside."""

from collections.abc import Mapping

from keyhouse.base.errors import Invalid, Problem
from keyhouse.server.client_api import changes
from keyhouse.server.client_api.agreements import acknowledged, updated
from keyhouse.server.client_api.service import Service
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.wire.client_api import OldSetManifestData
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.secret_types import UserSecret

__all__ = [
    "acknowledge_update",
    "cancel_update",
    "set_manifest",
    "update_manifest",
    "write_secrets",
]


async def set_manifest(service: Service, head: Head, body: bytes) -> Answer:
    """Enforce the first manifest: the body as it is. Without recovery keys the data is null."""
    del head
    command, view = await changes.set_manifest(service, body, _manifest)
    shares = command.recovery.ciphertexts
    data = OldSetManifestData(shares, shares) if shares else None
    message = "; ".join(f"warning: {warning}" for warning in changes.warnings_of(command))
    return service.success(data, view, message)


async def write_secrets(service: Service, head: Head, body: bytes) -> Answer:
    """Store what a user uploads: the body maps names to secrets."""
    view = await changes.write_secrets(service, head, body, _uploads, within="")
    return service.success(None, view)


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
    return service.success(changes.CANCELLED, view)


def _manifest(body: bytes) -> bytes:
    if not body:
        hint = "send its JSON text as the body"
        raise Invalid("the manifest", [Problem("", "is missing or empty", hint)])
    return body


def _proposal(body: bytes) -> changes.Proposal:
    return changes.Proposal(_manifest(body))  # version 1 knows no plans


def _uploads(body: bytes) -> Mapping[str, UserSecret]:
    return decode(body, dict[str, UserSecret])
