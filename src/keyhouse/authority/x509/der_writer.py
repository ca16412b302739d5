"""Writes the little DER that a marble certificate is put together from (X.690)."""

from datetime import datetime
from functools import lru_cache
from typing import Final

__all__ = ["element", "extension", "time", "unsigned"]

_SHORT: Final = 0x80
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_LAST_UTC_YEAR: Final = 2049  # RFC 5280, 4.1.2.5

_CRITICAL: Final = bytes.fromhex("0101ff")


def element(tag: int, *contents: bytes) -> bytes:
    """Return the element with ``tag`` (one byte) around ``contents``, in order."""
    content = b"".join(contents)
    length = len(content)
    if length < _SHORT:
        return bytes((tag, length)) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, _SHORT | len(octets))) + octets + content


def unsigned(number: int) -> bytes:
    """Return a number of 0 or more as an INTEGER."""
    return element(0x02, number.to_bytes(number.bit_length() // 8 + 1))


@lru_cache(maxsize=16)  # hundreds of certificates begin, and end, in the same second
def time(moment: datetime) -> bytes:
    """Return a whole second (UTC) as certificates hold it: UTCTime up to 2049, then longer."""
    if moment.year <= _LAST_UTC_YEAR:
        return element(_UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())
    return element(_GENERALIZED_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())


def extension(oid: bytes, value: bytes, *, critical: bool = False) -> bytes:
    """Return an extension; ``oid`` is its encoded identifier, ``value`` what it holds."""
    return element(0x30, oid, _CRITICAL if critical else b"", element(0x04, value))
