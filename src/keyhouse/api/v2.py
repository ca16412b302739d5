"""Version 2 of the Client API: the table of its routes."""

from typing import Final

from keyhouse.api import v2_reads as reads
from keyhouse.api import v2_writes as writes
from keyhouse.api.request_body import ENCODED_BYTES
from keyhouse.api.routes import Caller, Read, Route, Write
from keyhouse.coordinator import Operation
from keyhouse.manifest import FeatureGate

__all__ = ["ROUTES"]


def _get(path: str, operation: Operation, read: Read, caller: Caller = Caller.ANYBODY) -> Route:
    return Route(method="GET", path=path, operation=operation, read=read, caller=caller)


def _post(
    path: str,
    operation: Operation,
    write: Write,
    caller: Caller = Caller.ANYBODY,
    *,
    gate: FeatureGate | None = None,
    limit: int = ENCODED_BYTES,
) -> Route:
    return Route(
        method="POST",
        path=path,
        operation=operation,
        write=write,
        caller=caller,
        gate=gate,
        body_limit=limit,
    )


_USER: Final = Caller.USER

ROUTES: Final = (
    _get("/api/v2/status", Operation.READ_STATUS, reads.read_status),
    _get("/api/v2/manifest", Operation.READ_MANIFEST, reads.read_manifest),
    _post("/api/v2/manifest", Operation.SET_MANIFEST, writes.set_manifest),
    _get("/api/v2/quote", Operation.READ_QUOTE, reads.read_quote),
    _get("/api/v2/secrets", Operation.READ_SECRETS, reads.read_secrets, _USER),
    _post("/api/v2/secrets", Operation.WRITE_SECRETS, writes.write_secrets, _USER),
    _get("/api/v2/update", Operation.READ_LOG, reads.read_update_log),
    _post("/api/v2/update", Operation.UPDATE, writes.not_yet, _USER),
    _get("/api/v2/update-manifest", Operation.READ_PENDING, reads.not_yet),
    _post("/api/v2/update-manifest", Operation.ACKNOWLEDGE, writes.not_yet, _USER),
    _post("/api/v2/update-cancel", Operation.CANCEL, writes.not_yet, _USER),
    _get("/api/v2/recover/public-key", Operation.READ_RECOVERY_KEY, reads.not_yet),
    _post("/api/v2/recover", Operation.RECOVER, writes.not_yet, limit=20_480),
    _post(
        "/api/v2/sign-quote",
        Operation.SIGN_QUOTE,
        writes.not_yet,
        gate=FeatureGate.SIGN_QUOTE_ENDPOINT,
        limit=1024 * 1024,
    ),
    _post(
        "/api/v2/monotonic-counter",
        Operation.COUNT,
        writes.not_yet,
        Caller.MARBLE,
        gate=FeatureGate.MONOTONIC_COUNTER,
        limit=64 * 1024,
    ),
)
