"""Certificates as PEM text."""

from base64 import b64encode
from typing import Final

__all__ = ["certificate_pem"]

_LINE: Final = 64  # RFC 7468, section 2


def certificate_pem(*certificates: bytes) -> str:
    """Return DER certificates as PEM blocks in the given order, each with a final line feed."""
    return "".join(_block(der) for der in certificates)


def _block(der: bytes) -> str:
    text = b64encode(der).decode("ascii")
    lines = "".join(text[i : i + _LINE] + "\n" for i in range(0, len(text), _LINE))
    return f"-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"
