"""How long the client of a call waits, as its header ``grpc-timeout`` says.

Source: gRPC, "gRPC over HTTP2", "Requests".
"""

import re
from typing import Final

from keyhouse.server.grpc.call import CallRefusedError
from keyhouse.server.net.grpc_status import Status

__all__ = ["read_timeout"]

_FORM: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


def read_timeout(header: bytes) -> float:
    """Return the seconds that ``header`` gives: at most 8 digits and a unit. Refuses any other."""
    found = _FORM.fullmatch(header)
    if found is None:
        raise CallRefusedError(
            Status.INVALID_ARGUMENT,
            "the header grpc-timeout cannot be read (send at most 8 digits and one of HMSmun)",
        )
    return int(found[1]) * _SECONDS[found[2]]
