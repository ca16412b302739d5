"""Version 1 of the Client API: the table of its routes. Nothing in it is ever a ``fail``."""

from typing import Final

from keyhouse.coordinator import Operation
from keyhouse.server.client_api.routes import Caller, Route, get, post
from keyhouse.server.client_api.v1 import reads, writes
from keyhouse.server.client_api.v2 import reads as v2_reads
from keyhouse.server.http.body import DECODED_BYTES, ENCODED_BYTES

__all__ = ["ROUTES"]

_USER: Final = Caller.USER
_RAW: Final = DECODED_BYTES  # manifests are not encoded here

ROUTES: Final = (
    get("/status", Operation.READ_STATUS, reads.read_status),
    # Without a manifest it answers 200 with nothing in it, so every phase allows it.
    get("/manifest", Operation.READ_STATUS, reads.read_manifest),
    post("/manifest", Operation.SET_MANIFEST, writes.set_manifest, limit=_RAW),
    get("/quote", Operation.READ_QUOTE, reads.read_quote),
    get("/secrets", Operation.READ_SECRETS, reads.read_secrets, _USER),
    post("/secrets", Operation.WRITE_SECRETS, writes.write_secrets, _USER, limit=ENCODED_BYTES),
    get("/update", Operation.READ_LOG, reads.read_update_log),
    post("/update", Operation.UPDATE, writes.update_manifest, _USER, limit=_RAW),
    get("/update-manifest", Operation.READ_PENDING, v2_reads.read_pending),
    post("/update-manifest", Operation.ACKNOWLEDGE, writes.acknowledge_update, _USER, limit=_RAW),
    post("/update-cancel", Operation.CANCEL, writes.cancel_update, _USER),
    # Being told that recovery has moved needs no phase.
    Route(method="POST", path="/recover", operation=Operation.READ_STATUS, read=reads.recover),
)
