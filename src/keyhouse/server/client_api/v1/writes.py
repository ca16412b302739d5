"""The shapes of what version 1 of the Client API changes: raw manifests, no envelopes inside."""

from collections.abc import Mapping

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.server.client_api.agreements import CANCELLED, acknowledged, updated
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import warnings_message
from keyhouse.server.client_api.routes import INLINE, user_of
from keyhouse.server.client_api.secret_json import require_uploads_size
from keyhouse.server.http.body import require_size
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services.first_manifest import FirstManifest
from keyhouse.server.services.updates import Proposal, Updates
from keyhouse.server.services.user_secrets import SecretWrites
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


async def set_manifest(
    first_manifest: FirstManifest, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Enforce the first manifest: the body as it is. Without recovery keys the data is null."""
    del head
    enforced = await first_manifest.set(lambda: _manifest(body))
    shares = enforced.recovery_secrets
    data = OldSetManifestData(shares, shares) if shares else None
    return answers.success(data, enforced.view, warnings_message(enforced.warnings))


async def write_secrets(secrets: SecretWrites, answers: Answers, head: Head, body: bytes) -> Answer:
    """Store what a user uploads: the body maps names to secrets."""
    view = await secrets.write(
        head.identity, lambda: _uploads(body), within="", off_loop=len(body) > INLINE
    )
    return answers.success(None, view)


async def update_manifest(updates: Updates, answers: Answers, head: Head, body: bytes) -> Answer:
    """Raise security versions of packages, or initiate a full update."""
    agreement = await updates.propose(head.identity, lambda: _proposal(body))
    return updated(answers, agreement)


async def acknowledge_update(updates: Updates, answers: Answers, head: Head, body: bytes) -> Answer:
    """Agree to the pending manifest."""
    agreement = await updates.acknowledge(head.identity, lambda: _proposal(body))
    return acknowledged(answers, agreement)


async def cancel_update(updates: Updates, answers: Answers, head: Head, body: bytes) -> Answer:
    """Give the pending manifest up."""
    del body
    return answers.success(CANCELLED, await updates.cancel(user_of(head)))


def _manifest(body: bytes) -> bytes:
    if not body:
        hint = "send its JSON text as the body"
        raise InvalidError("the manifest", [Problem("", "is missing or empty", hint)])
    require_size(len(body))
    return body


def _proposal(body: bytes) -> Proposal:
    return Proposal(_manifest(body))  # version 1 has no plans


def _uploads(body: bytes) -> Mapping[str, UserSecret]:
    return require_uploads_size(decode(body, dict[str, UserSecret]))
