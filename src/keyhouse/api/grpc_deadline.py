"""How long the client of a call waits: what is not decided until then is not begun, or given up.

Source: gRPC, "gRPC over HTTP2", "Requests", ``grpc-timeout``.
"""

import asyncio
import re
from typing import Final

from keyhouse.api.grpc_call import CallRefused, Method
from keyhouse.api.grpc_status import Status

__all__ = ["called_until", "read_timeout"]

_FORM: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


def read_timeout(header: bytes) -> float:
    """Return the seconds that ``header`` gives: at most 8 digits and a unit. Refuses any other."""
    found = _FORM.fullmatch(header)
    if found is None:
        raise CallRefused(
            Status.INVALID_ARGUMENT,
            "the header grpc-timeout cannot be read (send at most 8 digits and one of HMSmun)",
        )
    return int(found[1]) * _SECONDS[found[2]]


async def called_until(
    deadline: float, method: Method, message: bytes, identity: bytes | None
) -> bytes:
    """Return what ``method`` gives before ``deadline``, the loop's time in whole milliseconds.

    After it the call is refused; a method that waits is cancelled. What it has handed to the engine
    goes on, as it does for a client who leaves.
    """
    if asyncio.get_running_loop().time() >= deadline:
        raise _too_late()
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            return await method(message, identity)
    except TimeoutError:
        if limit.expired():
            raise _too_late() from None
        raise


def _too_late() -> CallRefused:
    return CallRefused(
        Status.DEADLINE_EXCEEDED, "the client's deadline has passed (give the call more time)"
    )
