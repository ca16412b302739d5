"""Version 1 of the Client API: the table of its routes. Nothing in it is ever a ``fail``."""

from functools import partial
from typing import Final

from keyhouse.coordinator import Operation
from keyhouse.server.client_api.bodies import LogText
from keyhouse.server.client_api.routes import Caller, Route, get, post
from keyhouse.server.client_api.v1 import reads, writes
from keyhouse.server.client_api.v2 import reads as v2_reads
from keyhouse.server.http.body import DECODED_BYTES, ENCODED_BYTES

__all__ = ["ROUTES"]

_USER: Final = Caller.USER
_RAW: Final = DECODED_BYTES  # manifests are not encoded here

ROUTES: Final = (
    get(
        "/status",
        Operation.READ_STATUS,
        lambda to: partial(reads.read_status, to.engine.now, to.answers),
    ),
    # Without a manifest it answers 200 with nothing in it, so every phase allows it.
    get("/manifest", Operation.READ_STATUS, lambda to: partial(reads.read_manifest, to.answers)),
    post(
        "/manifest",
        Operation.SET_MANIFEST,
        lambda to: partial(writes.set_manifest, to.first_manifest, to.answers),
        limit=_RAW,
    ),
    get(
        "/quote",
        Operation.READ_QUOTE,
        lambda to: partial(reads.read_quote, to.quotes, to.answers),
    ),
    get(
        "/secrets",
        Operation.READ_SECRETS,
        lambda to: partial(reads.read_secrets, to.answers),
        _USER,
    ),
    post(
        "/secrets",
        Operation.WRITE_SECRETS,
        lambda to: partial(writes.write_secrets, to.secrets, to.answers),
        _USER,
        limit=ENCODED_BYTES,
    ),
    get(
        "/update",
        Operation.READ_LOG,
        lambda to: partial(reads.read_update_log, LogText(), to.answers),
    ),
    post(
        "/update",
        Operation.UPDATE,
        lambda to: partial(writes.update_manifest, to.updates, to.answers),
        _USER,
        limit=_RAW,
    ),
    get(
        "/update-manifest",
        Operation.READ_PENDING,
        lambda to: partial(v2_reads.read_pending, to.answers),
    ),
    post(
        "/update-manifest",
        Operation.ACKNOWLEDGE,
        lambda to: partial(writes.acknowledge_update, to.updates, to.answers),
        _USER,
        limit=_RAW,
    ),
    post(
        "/update-cancel",
        Operation.CANCEL,
        lambda to: partial(writes.cancel_update, to.updates, to.answers),
        _USER,
    ),
    # Being told that recovery has moved needs no phase.
    Route(
        method="POST",
        path="/recover",
        operation=Operation.READ_STATUS,
        read=lambda _: reads.recover,
    ),
)
