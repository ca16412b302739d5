"""What version 2 of the Client API answers without waiting: one view, no body."""

from functools import cache

import msgspec

from keyhouse.base.errors import NotFoundError, UnavailableError
from keyhouse.coordinator import Engine, View
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import (
    LogBody,
    LogText,
    evidence_body,
    manifest_body,
    pending_body,
    status_message,
)
from keyhouse.server.client_api.nonces import nonce_in
from keyhouse.server.client_api.secret_json import encode_secrets, read_named_secrets
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.services.preparation import Preparation
from keyhouse.server.services.quotes import Quotes
from keyhouse.wire.client_api import SecretsData, Status


@cache
def encoded_openapi() -> bytes:
    """Return the description of all routes as JSON, in UTF-8."""
    from keyhouse.server.client_api import ROUTES
    from keyhouse.server.client_api.description.openapi import openapi

    return msgspec.json.encode(openapi(ROUTES)) + b"\n"


def read_openapi(
    preparation: Preparation, answers: Answers, view: View, head: Head
) -> Answer | Admission:
    """Answer the OpenAPI document itself: generic tools know nothing of envelopes."""
    del head
    if encoded_openapi.cache_info().currsize:
        return Answer(200, encoded_openapi(), answers.headers(view))

    async def made(body: bytes) -> Answer:
        del body
        return Answer(200, await preparation.off_loop(encoded_openapi), answers.headers(view))

    return Admission(0, made)


def read_status(engine: Engine, answers: Answers, view: View, head: Head) -> Answer:
    """Answer the phase. Probes look at the HTTP status alone: it is 200 in every phase."""
    del head
    message = status_message(view, engine, simulated=answers.simulated, standbys=answers.standbys)
    phase = int(view.phase)
    return answers.success(Status(status=phase, code=phase, message=message), view)


def read_manifest(answers: Answers, view: View, head: Head) -> Answer:
    """Answer the manifest as it was uploaded, its fingerprint, and the root key's signature."""
    del head
    return answers.shared(manifest_body(view.running), view)


def read_quote(quotes: Quotes, answers: Answers, view: View, head: Head) -> Answer | Admission:
    """Answer the certificates and a quote over the root certificate and the caller's nonce."""
    nonce = nonce_in(head.query)
    if not nonce:
        return answers.encoded(evidence_body(quotes.without_nonce(view.state.keys)), view)

    async def fresh(body: bytes) -> Answer:
        del body
        try:
            evidence = await quotes.fresh(view.state.keys, nonce)
        except UnavailableError as busy:
            return answers.refused(busy, head)
        return answers.encoded(evidence_body(evidence), view)

    return Admission(0, fresh)


def read_secrets(answers: Answers, view: View, head: Head) -> Answer:
    """Answer the named secrets, if the user may read every one of them."""
    return answers.encoded(encode_secrets(SecretsData(read_named_secrets(view, head))), view)


def read_update_log(log: LogBody | LogText, answers: Answers, view: View, head: Head) -> Answer:
    """Answer every line of the update log, oldest first; as one text in version 1."""
    del head
    return answers.shared(log.of(view.log), view)


def read_pending(answers: Answers, view: View, head: Head) -> Answer:
    """Answer the manifest that waits for acknowledgements. The same in both versions."""
    del head
    pending = view.running.pending
    if pending is None:
        raise NotFoundError("no update is pending", hint="initiate one with POST /api/v2/update")
    body = pending_body(pending.manifest, pending.missing, pending.missing_users)
    return answers.shared(body, view)
