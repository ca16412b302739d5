"""Reads the marble type from a certificate, with the standard library alone.

TLS must have verified the certificate before: then it is one that the coordinator has made, and
the type in it is the one that the manifest knows.
"""

from collections.abc import Iterator
from typing import Final

__all__ = ["marble_type"]

_TYPE: Final = bytes.fromhex("06052bcd2f0201")  # object identifier 1.3.9903.2.1, DER
_EXTENSIONS: Final = 0xA3
_LONG: Final = 0x80


def marble_type(certificate: bytes) -> str:
    """Return the marble type in ``certificate`` (DER); empty if it has none."""
    to_be_signed = _first(_first(certificate))
    for tag, content in _values(to_be_signed):
        if tag == _EXTENSIONS:
            for _, extension in _values(_first(content)):
                if extension.startswith(_TYPE):
                    *_, (_, value) = _values(extension)
                    return value.decode()
    return ""


def _first(der: bytes) -> bytes:
    return next(_values(der))[1]


def _values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Give tag and content of each value in ``der``."""
    at = 0
    while at < len(der):
        tag, size, begin = der[at], der[at + 1], at + 2
        if size & _LONG:
            digits = size & ~_LONG
            size = int.from_bytes(der[begin : begin + digits], "big")
            begin += digits
        yield tag, der[begin : begin + size]
        at = begin + size
