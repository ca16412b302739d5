"""Version 2 of the Client API: the table of its routes."""

from functools import partial
from typing import Final

from keyhouse.coordinator import Operation
from keyhouse.manifest import FeatureGate
from keyhouse.server.client_api.bodies import LogBody
from keyhouse.server.client_api.public_log import OBJECT, TILE
from keyhouse.server.client_api.routes import Caller, get, post
from keyhouse.server.client_api.v2 import reads, recovery, writes
from keyhouse.server.client_api.v2.activations import read_activations, read_counters, read_refused
from keyhouse.server.client_api.v2.writes import CANCELLED
from keyhouse.server.http.body import ENCODED_BYTES
from keyhouse.wire.client_api import MessageData

_USER: Final = Caller.USER

ROUTES: Final = (
    # Public and always the same, so every phase allows it.
    get(
        "/api/v2/openapi.json",
        Operation.READ_STATUS,
        lambda to: partial(reads.read_openapi, to.preparation, to.answers),
    ),
    get(
        "/api/v2/status",
        Operation.READ_STATUS,
        lambda to: partial(reads.read_status, to.engine, to.answers),
    ),
    get(
        "/api/v2/manifest",
        Operation.READ_MANIFEST,
        lambda to: partial(reads.read_manifest, to.answers),
    ),
    post(
        "/api/v2/manifest",
        Operation.SET_MANIFEST,
        lambda to: partial(writes.set_manifest, to.first_manifest, to.answers),
        limit=ENCODED_BYTES,
    ),
    get(
        "/api/v2/quote",
        Operation.READ_QUOTE,
        lambda to: partial(reads.read_quote, to.quotes, to.answers),
    ),
    get(
        "/api/v2/secrets",
        Operation.READ_SECRETS,
        lambda to: partial(reads.read_secrets, to.answers),
        _USER,
    ),
    post(
        "/api/v2/secrets",
        Operation.WRITE_SECRETS,
        lambda to: partial(
            writes.write_secrets, writes.uploads_of, "secrets", to.secrets, to.answers
        ),
        _USER,
        limit=ENCODED_BYTES,
        appends=True,
    ),
    post(
        "/api/v2/plan",
        Operation.UPDATE,
        lambda to: partial(writes.plan_update, to.updates, to.preparation, to.answers),
        _USER,
        limit=ENCODED_BYTES,
    ),
    get(
        "/api/v2/update",
        Operation.READ_LOG,
        lambda to: partial(reads.read_update_log, LogBody(), to.answers),
    ),
    get(
        "/api/v2/log/checkpoint",
        Operation.READ_PUBLIC_LOG,
        lambda to: to.public_log.checkpoint,
    ),
    get(
        "/api/v2/log/key",
        Operation.READ_PUBLIC_LOG,
        lambda to: to.public_log.key,
    ),
    get(
        f"{TILE}{{tile}}",
        Operation.READ_PUBLIC_LOG,
        lambda to: to.public_log.tile,
        grammar=r"(?:entries|[0-9]{1,2})/(?:x[0-9]{3}/){0,6}[0-9]{3}(?:\.p/[0-9]{1,3})?",
    ),
    get(
        f"{OBJECT}{{object}}",
        Operation.READ_PUBLIC_LOG,
        lambda to: to.public_log.object,
        grammar="[0-9a-f]{64}",
    ),
    get(
        "/api/v2/log/quote",
        Operation.READ_PUBLIC_LOG,
        lambda to: to.public_log.quote,
    ),
    post(
        "/api/v2/update",
        Operation.UPDATE,
        lambda to: partial(writes.update_manifest, writes.proposal_of, to.updates, to.answers),
        _USER,
        limit=ENCODED_BYTES,
    ),
    get(
        "/api/v2/update-manifest",
        Operation.READ_PENDING,
        lambda to: partial(reads.read_pending, to.answers),
    ),
    post(
        "/api/v2/update-manifest",
        Operation.ACKNOWLEDGE,
        lambda to: partial(writes.acknowledge_update, writes.proposal_of, to.updates, to.answers),
        _USER,
        limit=ENCODED_BYTES,
    ),
    post(
        "/api/v2/update-cancel",
        Operation.CANCEL,
        lambda to: partial(
            writes.cancel_update,
            writes.cancellation_of,
            MessageData(CANCELLED),
            to.updates,
            to.answers,
        ),
        _USER,
    ),
    get(
        "/api/v2/recover/public-key",
        Operation.READ_RECOVERY_KEY,
        lambda to: partial(recovery.read_public_key, to.recovery, to.answers),
    ),
    post(
        "/api/v2/recover",
        Operation.RECOVER,
        lambda to: partial(recovery.upload_share, to.recovery, to.answers),
        limit=20_480,
    ),
    get(
        "/api/v2/recovery-secrets",
        Operation.READ_RECOVERY_SECRETS,
        lambda to: partial(recovery.read_ciphertexts, to.answers),
        _USER,
    ),
    post(
        "/api/v2/sign-quote",
        Operation.SIGN_QUOTE,
        lambda to: partial(writes.sign_quote, to.quote_checks, to.quote_signing, to.answers),
        gate=FeatureGate.SIGN_QUOTE_ENDPOINT,
        limit=1024 * 1024,
    ),
    post(
        "/api/v2/monotonic-counter",
        Operation.COUNT,
        lambda to: partial(writes.raise_counter, to.counters, to.answers),
        Caller.MARBLE,
        gate=FeatureGate.MONOTONIC_COUNTER,
        limit=64 * 1024,
    ),
    get(
        "/api/v2/activations",
        Operation.READ_ACTIVATIONS,
        lambda to: partial(read_activations, to.answers),
        _USER,
    ),
    get(
        "/api/v2/refused-activations",
        Operation.READ_REFUSED,
        lambda to: partial(read_refused, to.refusals, to.answers),
        _USER,
    ),
    get(
        "/api/v2/counters",
        Operation.READ_COUNTERS,
        lambda to: partial(read_counters, to.answers),
        _USER,
    ),
)
