"""Reads of version 2 of the Client API: from a single view, without a body and without waiting."""

from functools import cache
from pathlib import Path

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator import View, require_pending
from keyhouse.server.client_api.bodies import (
    evidence_body,
    manifest_body,
    pending_body,
    status_message,
)
from keyhouse.server.client_api.nonces import nonce_in
from keyhouse.server.client_api.routes import UseCases
from keyhouse.server.client_api.secret_json import encode_secrets, read_named_secrets
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.wire.client_api import LeaseLeft, SecretsData, Status
from keyhouse.wire.field_presence import LEFT_OUT


@cache
def encoded_openapi() -> bytes:
    """Return the description of all routes as JSON, in UTF-8.

    The file is generated from the routes and types (``tests/support/reference.py``).
    """
    return Path(__file__).parents[1].joinpath("openapi.json").read_bytes()


def read_openapi(to: UseCases, view: View, _head: Head) -> Answer | Admission:
    """Return the OpenAPI document without an envelope, because generic tools expect none."""
    headers = to.answers.headers(view)
    if encoded_openapi.cache_info().currsize:
        return Answer(200, encoded_openapi(), headers)

    async def made(_body: bytes) -> Answer:
        return Answer(200, await to.preparation.off_loop(encoded_openapi), headers)

    return Admission(0, made)


def read_status(to: UseCases, view: View, _head: Head) -> Answer:
    """Return the phase. The HTTP status is always 200, because probes read only the status."""
    phase = int(view.phase)
    message = status_message(to.answers, to.engine, view)
    left = to.engine.lease.left
    lease = LEFT_OUT if left is None else LeaseLeft(left.seconds, left.operations)
    return to.answers.success(Status(status=phase, code=phase, message=message, lease=lease), view)


def read_manifest(to: UseCases, view: View, _head: Head) -> Answer:
    """Return the uploaded manifest, its fingerprint, and the root key's signature."""
    return to.answers.shared(manifest_body(view.running), view)


def read_quote(to: UseCases, view: View, head: Head) -> Answer | Admission:
    """Return the certificates and a quote over the root certificate and the caller's nonce."""
    nonce = nonce_in(head.query)
    if not nonce:
        return to.answers.encoded(evidence_body(to.quotes.without_nonce(view.state.keys)), view)

    async def fresh(_body: bytes) -> Answer:
        try:
            evidence = await to.quotes.fresh(view.state.keys, nonce)
        except UnavailableError as busy:
            return to.answers.refused(busy, head)
        return to.answers.encoded(evidence_body(evidence), view)

    return Admission(0, fresh)


def read_secrets(to: UseCases, view: View, head: Head) -> Answer:
    """Return the named secrets, if the user may read all of them."""
    data = SecretsData(read_named_secrets(view, head))
    return to.answers.encoded(encode_secrets(data), view)


def read_update_log(to: UseCases, view: View, _head: Head) -> Answer:
    """Return every line of the update log, oldest first."""
    return to.answers.shared(to.log_body.of(view.log), view)


def read_pending(to: UseCases, view: View, _head: Head) -> Answer:
    """Return the pending manifest and its missing acknowledgements, for both versions."""
    pending = require_pending(view.running)
    body = pending_body(pending.manifest, pending.missing, pending.missing_users)
    return to.answers.shared(body, view)
