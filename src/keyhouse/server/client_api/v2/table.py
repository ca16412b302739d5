"""Version 2 of the Client API: the table of its routes."""

from collections.abc import Callable
from functools import partial
from typing import Final

from keyhouse.coordinator import Operation, View
from keyhouse.manifest import FeatureGate
from keyhouse.server.client_api.public_log import OBJECT, TILE, PublicLogHandlers
from keyhouse.server.client_api.routes import Caller, Route, get, post
from keyhouse.server.client_api.v2 import activations, reads, recovery, revocations, writes
from keyhouse.server.client_api.v2.writes import CANCELLED
from keyhouse.server.http.body import ENCODED_BYTES
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.wire.client_api import MessageData

_USER: Final = Caller.USER


def _log(
    path: str,
    answer: Callable[[PublicLogHandlers, View, Head], Answer | Admission],
    grammar: str = "",
) -> Route:
    """Return the route for a part of the transparency log. ``answer`` is its handler.

    ``grammar``: the regular expression for the placeholder at the end of ``path``.
    """
    return get(
        path,
        Operation.READ_PUBLIC_LOG,
        lambda to, view, head: answer(to.public_log, view, head),
        grammar=grammar,
    )


ROUTES: Final = (
    # These are public and immutable, so every phase permits them.
    get("/api/v2/openapi.json", Operation.READ_STATUS, reads.read_openapi),
    get("/api/v2/status", Operation.READ_STATUS, reads.read_status),
    get("/api/v2/manifest", Operation.READ_MANIFEST, reads.read_manifest),
    post("/api/v2/manifest", Operation.SET_MANIFEST, writes.set_manifest, limit=ENCODED_BYTES),
    get("/api/v2/quote", Operation.READ_QUOTE, reads.read_quote),
    get("/api/v2/secrets", Operation.READ_SECRETS, reads.read_secrets, _USER),
    post(
        "/api/v2/secrets",
        Operation.WRITE_SECRETS,
        partial(writes.write_secrets, writes.uploads_of, "secrets"),
        _USER,
        limit=ENCODED_BYTES,
        appends=True,
    ),
    post("/api/v2/plan", Operation.UPDATE, writes.plan_update, _USER, limit=ENCODED_BYTES),
    get("/api/v2/update", Operation.READ_LOG, reads.read_update_log),
    _log("/api/v2/log/checkpoint", PublicLogHandlers.checkpoint),
    _log("/api/v2/log/key", PublicLogHandlers.key),
    _log(
        f"{TILE}{{tile}}",
        PublicLogHandlers.tile,
        r"(?:entries|[0-9]{1,2})/(?:x[0-9]{3}/){0,6}[0-9]{3}(?:\.p/[0-9]{1,3})?",
    ),
    _log(f"{OBJECT}{{object}}", PublicLogHandlers.object, "[0-9a-f]{64}"),
    _log("/api/v2/log/quote", PublicLogHandlers.quote),
    _log("/api/v2/line", PublicLogHandlers.line),
    post(
        "/api/v2/update",
        Operation.UPDATE,
        partial(writes.update_manifest, writes.proposal_of),
        _USER,
        limit=ENCODED_BYTES,
    ),
    get("/api/v2/update-manifest", Operation.READ_PENDING, reads.read_pending),
    post(
        "/api/v2/update-manifest",
        Operation.ACKNOWLEDGE,
        partial(writes.acknowledge_update, writes.proposal_of),
        _USER,
        limit=ENCODED_BYTES,
    ),
    post(
        "/api/v2/update-cancel",
        Operation.CANCEL,
        partial(writes.cancel_update, writes.cancellation_of, MessageData(CANCELLED)),
        _USER,
    ),
    get("/api/v2/recover/public-key", Operation.READ_RECOVERY_KEY, recovery.read_public_key),
    post("/api/v2/recover", Operation.RECOVER, recovery.upload_share, limit=20_480),
    get(
        "/api/v2/recovery-secrets",
        Operation.READ_RECOVERY_SECRETS,
        recovery.read_ciphertexts,
        _USER,
    ),
    post(
        "/api/v2/sign-quote",
        Operation.SIGN_QUOTE,
        writes.sign_quote,
        gate=FeatureGate.SIGN_QUOTE_ENDPOINT,
        limit=1024 * 1024,
    ),
    post(
        "/api/v2/monotonic-counter",
        Operation.COUNT,
        writes.raise_counter,
        Caller.MARBLE,
        gate=FeatureGate.MONOTONIC_COUNTER,
        limit=64 * 1024,
    ),
    get("/api/v2/activations", Operation.READ_ACTIVATIONS, activations.read_activations, _USER),
    get("/api/v2/refused-activations", Operation.READ_REFUSED, activations.read_refused, _USER),
    get("/api/v2/workloads", Operation.REVOKE, revocations.read_workloads, _USER),
    get("/api/v2/revocations", Operation.REVOKE, revocations.read_revocations, _USER),
    post("/api/v2/revocations", Operation.REVOKE, revocations.revoke, _USER, limit=16 * 1024),
    get("/api/v2/counters", Operation.READ_COUNTERS, activations.read_counters, _USER),
)
