"""The shapes of what version 2 of the Client API changes."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequest, Invalid, Problem
from keyhouse.server.client_api.agreements import CANCELLED, acknowledged, updated
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import warnings_message
from keyhouse.server.client_api.routes import INLINE, user_of
from keyhouse.server.client_api.secret_json import require_uploads_size
from keyhouse.server.http.body import read_body, require_size
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services.first_manifest import FirstManifest
from keyhouse.server.services.preparation import Preparation
from keyhouse.server.services.updates import Proposal, Updates
from keyhouse.server.services.user_secrets import SecretWrites
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


async def set_manifest(
    first_manifest: FirstManifest, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Enforce the first manifest; answer the recovery secrets for the holders of the keys."""
    del head
    enforced = await first_manifest.set(lambda: _manifest(body))
    data = SetManifestData(enforced.recovery_secrets, enforced.recovery_secrets)
    return answers.success(data, enforced.view, warnings_message(enforced.warnings))


async def write_secrets(secrets: SecretWrites, answers: Answers, head: Head, body: bytes) -> Answer:
    """Store what a user uploads: all of it or nothing."""
    view = await secrets.write(
        head.identity, lambda: _uploads(body), within="secrets", off_loop=len(body) > INLINE
    )
    return answers.success(None, view)


async def plan_update(
    updates: Updates, preparation: Preparation, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Tell what an update would do, with a digest that it can be bound to. Changes nothing."""
    plan, view = await updates.plan(head.identity, lambda: _manifest(body))
    return answers.encoded(await preparation.off_loop(lambda: msgspec.json.encode(plan)), view)


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
    return answers.success(MessageData(CANCELLED), await updates.cancel(user_of(head)))


def _manifest(body: bytes) -> bytes:
    return _given(read_body(body, ManifestBody).manifest)


def _proposal(body: bytes) -> Proposal:
    read = read_body(body, UpdateBody)
    if read.plan is not None and not _DIGEST.fullmatch(read.plan):
        raise BadRequest(
            "the digest of the plan is none",
            fields={"plan": "must be 64 hex digits, in lower case"},
            hint="send the digest that POST /api/v2/plan has answered",
        )
    return Proposal(_given(read.manifest), read.plan or "")


def _given(raw: bytes) -> bytes:
    if not raw:
        raise Invalid("the manifest", [Problem("", "is missing or empty", _MANIFEST_HINT)])
    require_size(len(raw))
    return raw


def _uploads(body: bytes) -> Mapping[str, UserSecret]:
    return require_uploads_size(read_body(body, SecretsBody).secrets)
