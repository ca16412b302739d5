"""Version 1 of the Client API: its paths exist and are guarded; their answers come later.

405 means "no such version" to clients, which is why none of these may answer it.
"""

from typing import Final

from keyhouse.api import v2_reads, v2_writes
from keyhouse.api.exchange import Admission, Answer, Head
from keyhouse.api.request_body import ENCODED_BYTES
from keyhouse.api.routes import Caller, Read, Route, Write
from keyhouse.api.service import Service
from keyhouse.coordinator import Operation, View
from keyhouse.wire.errors import Gone

__all__ = ["ROUTES"]


def recover(service: Service, view: View, head: Head) -> Answer | Admission:
    """Refuse: version 1 never had what recovery needs now."""
    del service, view, head
    raise Gone("recovery has moved", hint="use POST /api/v2/recover")


def _route(method: str, path: str, operation: Operation, caller: Caller = Caller.ANYBODY) -> Route:
    read: Read | None = v2_reads.not_yet if method == "GET" else None
    write: Write | None = None if method == "GET" else v2_writes.not_yet
    return Route(
        method=method,
        path=path,
        operation=operation,
        caller=caller,
        read=read,
        write=write,
        body_limit=ENCODED_BYTES,
    )


_USER: Final = Caller.USER

ROUTES: Final = (
    _route("GET", "/status", Operation.READ_STATUS),
    _route("GET", "/manifest", Operation.READ_MANIFEST),
    _route("POST", "/manifest", Operation.SET_MANIFEST),
    _route("GET", "/quote", Operation.READ_QUOTE),
    _route("GET", "/secrets", Operation.READ_SECRETS, _USER),
    _route("POST", "/secrets", Operation.WRITE_SECRETS, _USER),
    _route("GET", "/update", Operation.READ_LOG),
    _route("POST", "/update", Operation.UPDATE, _USER),
    _route("GET", "/update-manifest", Operation.READ_PENDING),
    _route("POST", "/update-manifest", Operation.ACKNOWLEDGE, _USER),
    _route("POST", "/update-cancel", Operation.CANCEL, _USER),
    # The status of a phase needs no manifest, nor does being told that recovery has moved.
    Route(method="POST", path="/recover", operation=Operation.READ_STATUS, read=recover),
)
