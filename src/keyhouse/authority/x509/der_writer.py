"""Times and extensions of a certificate in DER (RFC 5280)."""

from datetime import datetime
from functools import lru_cache
from typing import Final

from keyhouse.wire.der_elements import element

__all__ = ["extension", "time"]

_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_LAST_UTC_YEAR: Final = 2049  # RFC 5280, 4.1.2.5

_CRITICAL: Final = bytes.fromhex("0101ff")


@lru_cache(maxsize=16)  # hundreds of certificates begin, and end, in the same second
def time(moment: datetime) -> bytes:
    """Return a whole second (UTC) as certificates hold it: UTCTime up to 2049, then longer."""
    if moment.year <= _LAST_UTC_YEAR:
        return element(_UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())
    return element(_GENERALIZED_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())


def extension(oid: bytes, value: bytes, *, critical: bool = False) -> bytes:
    """Return an extension; ``oid`` is its encoded identifier, ``value`` what it holds."""
    return element(0x30, oid, _CRITICAL if critical else b"", element(0x04, value))
