"""Version 1 of the Client API: the shapes that differ, and the table of its routes.

Manifests are raw, and nothing is in a field of its own. Nothing in it is ever a ``fail``.
"""

from functools import partial
from typing import Final

from keyhouse.base.errors import GoneError, InvalidError, Problem
from keyhouse.coordinator import Engine, Operation, Running, View
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import (
    LogText,
    evidence_body,
    manifest_body_1,
    status_message,
    warnings_message,
)
from keyhouse.server.client_api.routes import Caller, Route, get, post
from keyhouse.server.client_api.secret_json import encode_secrets, read_named_secrets
from keyhouse.server.client_api.v2 import reads, writes
from keyhouse.server.client_api.v2.writes import CANCELLED
from keyhouse.server.http.body import DECODED_BYTES, ENCODED_BYTES, require_size
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.services.first_manifest import FirstManifest
from keyhouse.server.services.quotes import Quotes
from keyhouse.server.services.updates import Proposal
from keyhouse.wire.client_api import OldSetManifestData, OldStatusData
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.secret_types import UserSecret


def _read_status(engine: Engine, answers: Answers, view: View, head: Head) -> Answer:
    del head
    message = status_message(view, engine, simulated=answers.simulated, standbys=answers.standbys)
    return answers.success(OldStatusData(int(view.phase), message), view)


def _read_manifest(answers: Answers, view: View, head: Head) -> Answer:
    """Answer the manifest; before there is one, 200 with nothing in it, as clients expect."""
    del head
    state = view.state
    return answers.shared(manifest_body_1(state if isinstance(state, Running) else None), view)


def _read_quote(quotes: Quotes, answers: Answers, view: View, head: Head) -> Answer:
    """Answer the certificates and the quote without a nonce, whatever the query says."""
    del head
    return answers.encoded(evidence_body(quotes.without_nonce(view.state.keys)), view)


def _read_secrets(answers: Answers, view: View, head: Head) -> Answer:
    return answers.encoded(encode_secrets(read_named_secrets(view, head)), view)


def _recover(view: View, head: Head) -> Answer | Admission:
    """Refuse: version 1 never had what recovery needs now."""
    del view, head
    raise GoneError("recovery has moved", hint="use POST /api/v2/recover")


async def _set_manifest(
    first_manifest: FirstManifest, answers: Answers, head: Head, body: bytes
) -> Answer:
    """Enforce the first manifest: the body as it is. Without recovery keys the data is null."""
    del head
    enforced = await first_manifest.set(lambda: _manifest(body))
    shares = enforced.recovery_secrets
    data = OldSetManifestData(shares, shares) if shares else None
    return answers.success(data, enforced.view, warnings_message(enforced.warnings))


def _manifest(body: bytes) -> bytes:
    if not body:
        hint = "send its JSON text as the body"
        raise InvalidError("the manifest", [Problem("", "is missing or empty", hint)])
    require_size(len(body))
    return body


def _proposal(body: bytes) -> Proposal:
    return Proposal(_manifest(body))  # version 1 has no plans


def _uploads(body: bytes) -> dict[str, UserSecret]:
    return decode(body, dict[str, UserSecret])


_USER: Final = Caller.USER
_RAW: Final = DECODED_BYTES  # manifests are not encoded here

ROUTES: Final = (
    get(
        "/status",
        Operation.READ_STATUS,
        lambda to: partial(_read_status, to.engine, to.answers),
    ),
    # Without a manifest it answers 200 with nothing in it, so every phase allows it.
    get("/manifest", Operation.READ_STATUS, lambda to: partial(_read_manifest, to.answers)),
    post(
        "/manifest",
        Operation.SET_MANIFEST,
        lambda to: partial(_set_manifest, to.first_manifest, to.answers),
        limit=_RAW,
    ),
    get(
        "/quote",
        Operation.READ_QUOTE,
        lambda to: partial(_read_quote, to.quotes, to.answers),
    ),
    get(
        "/secrets",
        Operation.READ_SECRETS,
        lambda to: partial(_read_secrets, to.answers),
        _USER,
    ),
    post(
        "/secrets",
        Operation.WRITE_SECRETS,
        lambda to: partial(writes.write_secrets, _uploads, "", to.secrets, to.answers),
        _USER,
        limit=ENCODED_BYTES,
        appends=True,
    ),
    get(
        "/update",
        Operation.READ_LOG,
        lambda to: partial(reads.read_update_log, LogText(), to.answers),
    ),
    post(
        "/update",
        Operation.UPDATE,
        lambda to: partial(writes.update_manifest, _proposal, to.updates, to.answers),
        _USER,
        limit=_RAW,
    ),
    get(
        "/update-manifest",
        Operation.READ_PENDING,
        lambda to: partial(reads.read_pending, to.answers),
    ),
    post(
        "/update-manifest",
        Operation.ACKNOWLEDGE,
        lambda to: partial(writes.acknowledge_update, _proposal, to.updates, to.answers),
        _USER,
        limit=_RAW,
    ),
    post(
        "/update-cancel",
        Operation.CANCEL,
        lambda to: partial(writes.cancel_update, lambda _: None, CANCELLED, to.updates, to.answers),
        _USER,
    ),
    # Being told that recovery has moved needs no phase.
    Route(
        method="POST",
        path="/recover",
        operation=Operation.READ_STATUS,
        read=lambda _: _recover,
    ),
)
