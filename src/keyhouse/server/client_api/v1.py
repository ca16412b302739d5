"""Version 1 of the Client API: the bodies that differ from version 2, and the table of routes.

Manifests are raw bytes. The ``status`` of a refusal is ``error``; only version 2 has ``fail``.
"""

from functools import partial
from typing import Final

from keyhouse.base.errors import GoneError, InvalidError, Problem
from keyhouse.coordinator import Operation, Running, View
from keyhouse.server.client_api.bodies import (
    evidence_body,
    manifest_body_1,
    status_message,
    warnings_message,
)
from keyhouse.server.client_api.routes import Caller, Route, UseCases, get, post
from keyhouse.server.client_api.secret_json import encode_secrets, read_named_secrets
from keyhouse.server.client_api.v2 import reads, writes
from keyhouse.server.client_api.v2.writes import CANCELLED
from keyhouse.server.http.body import DECODED_BYTES, ENCODED_BYTES, require_size
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services.manifests import Proposal
from keyhouse.wire.client_api import OldSetManifestData, OldStatusData
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.secret_types import UserSecret


def _read_status(to: UseCases, view: View, _head: Head) -> Answer:
    message = status_message(to.answers, to.engine, view)
    return to.answers.success(OldStatusData(int(view.phase), message), view)


def _read_manifest(to: UseCases, view: View, _head: Head) -> Answer:
    """Return the manifest. Before the first manifest: 200 with empty fields, as clients expect."""
    state = view.state
    return to.answers.shared(manifest_body_1(state if isinstance(state, Running) else None), view)


def _read_quote(to: UseCases, view: View, _head: Head) -> Answer:
    """Return the certificates and a quote without a nonce, whatever the query contains."""
    return to.answers.encoded(evidence_body(to.quotes.without_nonce(view.state.keys)), view)


def _read_secrets(to: UseCases, view: View, head: Head) -> Answer:
    return to.answers.encoded(encode_secrets(read_named_secrets(view, head)), view)


def _read_update_log(to: UseCases, view: View, _head: Head) -> Answer:
    """Return all lines of the update log, oldest first, as one text."""
    return to.answers.shared(to.log_text.of(view.log), view)


def _recover(_to: UseCases, _view: View, _head: Head) -> Answer:
    """Refuse: version 1 lacks the fields that a recovery needs."""
    raise GoneError("version 1 has no recovery", hint="use POST /api/v2/recover")


async def _set_manifest(to: UseCases, _head: Head, body: bytes) -> Answer:
    """Enforce the first manifest, which is the raw body.

    Without recovery keys in the manifest, the data of the answer is null.
    """
    enforced = await to.first_manifest.set(lambda: _manifest(body))
    shares = enforced.recovery_secrets
    data = OldSetManifestData(shares, shares) if shares else None
    return to.answers.success(data, enforced.view, warnings_message(enforced.warnings))


def _manifest(body: bytes) -> bytes:
    if not body:
        hint = "send its JSON text as the body"
        raise InvalidError("the manifest", [Problem("", "is missing or empty", hint)])
    require_size(len(body))
    return body


def _proposal(body: bytes) -> Proposal:
    # Version 1 has no plans.
    return Proposal(_manifest(body))


def _uploads(body: bytes) -> dict[str, UserSecret]:
    return decode(body, dict[str, UserSecret])


_USER: Final = Caller.USER
# Manifests are not encoded in version 1.
_RAW: Final = DECODED_BYTES

ROUTES: Final = (
    get("/status", Operation.READ_STATUS, _read_status),
    # Before the first manifest the answer is 200 with empty fields, so every phase permits the
    # route.
    get("/manifest", Operation.READ_STATUS, _read_manifest),
    post("/manifest", Operation.SET_MANIFEST, _set_manifest, limit=_RAW),
    get("/quote", Operation.READ_QUOTE, _read_quote),
    get("/secrets", Operation.READ_SECRETS, _read_secrets, _USER),
    post(
        "/secrets",
        Operation.WRITE_SECRETS,
        partial(writes.write_secrets, _uploads, ""),
        _USER,
        limit=ENCODED_BYTES,
        appends=True,
    ),
    get("/update", Operation.READ_LOG, _read_update_log),
    post(
        "/update",
        Operation.UPDATE,
        partial(writes.update_manifest, _proposal),
        _USER,
        limit=_RAW,
    ),
    get("/update-manifest", Operation.READ_PENDING, reads.read_pending),
    post(
        "/update-manifest",
        Operation.ACKNOWLEDGE,
        partial(writes.acknowledge_update, _proposal),
        _USER,
        limit=_RAW,
    ),
    post(
        "/update-cancel",
        Operation.CANCEL,
        partial(writes.cancel_update, lambda _: None, CANCELLED),
        _USER,
    ),
    # The answer that recovery has moved needs no phase.
    Route(method="POST", path="/recover", operation=Operation.READ_STATUS, read=_recover),
)
