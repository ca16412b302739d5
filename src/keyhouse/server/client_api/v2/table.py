"""Version 2 of the Client API: the table of its routes."""

from typing import Final

from keyhouse.coordinator import Operation
from keyhouse.manifest import FeatureGate
from keyhouse.server.client_api.description.served import read_openapi
from keyhouse.server.client_api.routes import Caller, get, post
from keyhouse.server.client_api.v2 import reads, recovery, writes
from keyhouse.server.client_api.v2.activations import read_activations
from keyhouse.server.client_api.v2.counter import raise_counter
from keyhouse.server.client_api.v2.sign_quote import sign_quote
from keyhouse.server.http.body import ENCODED_BYTES

__all__ = ["ROUTES"]


_USER: Final = Caller.USER

ROUTES: Final = (
    # Public and always the same, so every phase allows it.
    get("/api/v2/openapi.json", Operation.READ_STATUS, read_openapi),
    get("/api/v2/status", Operation.READ_STATUS, reads.read_status),
    get("/api/v2/manifest", Operation.READ_MANIFEST, reads.read_manifest),
    post("/api/v2/manifest", Operation.SET_MANIFEST, writes.set_manifest, limit=ENCODED_BYTES),
    get("/api/v2/quote", Operation.READ_QUOTE, reads.read_quote),
    get("/api/v2/secrets", Operation.READ_SECRETS, reads.read_secrets, _USER),
    post(
        "/api/v2/secrets", Operation.WRITE_SECRETS, writes.write_secrets, _USER, limit=ENCODED_BYTES
    ),
    post("/api/v2/plan", Operation.UPDATE, writes.plan_update, _USER, limit=ENCODED_BYTES),
    get("/api/v2/update", Operation.READ_LOG, reads.read_update_log),
    post("/api/v2/update", Operation.UPDATE, writes.update_manifest, _USER, limit=ENCODED_BYTES),
    get("/api/v2/update-manifest", Operation.READ_PENDING, reads.read_pending),
    post(
        "/api/v2/update-manifest",
        Operation.ACKNOWLEDGE,
        writes.acknowledge_update,
        _USER,
        limit=ENCODED_BYTES,
    ),
    post("/api/v2/update-cancel", Operation.CANCEL, writes.cancel_update, _USER),
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
        sign_quote,
        gate=FeatureGate.SIGN_QUOTE_ENDPOINT,
        limit=1024 * 1024,
    ),
    post(
        "/api/v2/monotonic-counter",
        Operation.COUNT,
        raise_counter,
        Caller.MARBLE,
        gate=FeatureGate.MONOTONIC_COUNTER,
        limit=64 * 1024,
    ),
    get("/api/v2/activations", Operation.READ_ACTIVATIONS, read_activations, _USER),
)
