"""Certificates and private keys as PEM text."""

from base64 import b64encode
from typing import Final

from keyhouse.base.secret import Secret

_LINE: Final = 64  # RFC 7468, section 2


def certificate_pem(*certificates: bytes) -> str:
    """Return DER certificates as PEM blocks in the given order, each with a final line feed."""
    return "".join(_block("CERTIFICATE", der) for der in certificates)


def private_key_pem(pkcs8: Secret) -> str:
    """Return a private key (PKCS #8 DER) as a PEM block, as secret as the key."""
    return _block("PRIVATE KEY", pkcs8.reveal())


def _block(label: str, der: bytes) -> str:
    text = b64encode(der).decode("ascii")
    lines = "\n".join([text[i : i + _LINE] for i in range(0, len(text), _LINE)])
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
