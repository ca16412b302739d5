"""The signature of an SGX enclave.

::

    offset  bytes
         0     16  06000000 e1000000 00000100 00000000
        24     16  01010000 60000000 60000000 01000000
       128    384  modulus of the signer's RSA key, little-endian
       512      4  exponent: 3
       516    384  signature, little-endian: PKCS #1 v1.5, SHA-256, of bytes 0-127, 900-1027
       928     16  attributes; bit 1 of the first byte: debug
       960     32  MRENCLAVE
      1024      2  ISVPRODID, little-endian
      1026      2  ISVSVN, little-endian
      1808         end

Source: Intel SDM, volume 3D, "Enclave signature structure (SIGSTRUCT)".
"""

import hashlib
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from keyhouse.base.errors import Refused

__all__ = ["SIZE", "Signed", "SigstructUnusable", "read_sigstruct"]

SIZE: Final = 1808

_HEADER: Final = bytes.fromhex("06000000e10000000000010000000000")
_HEADER_2: Final = bytes.fromhex("01010000600000006000000001000000")
_DEBUG: Final = 0b10


class SigstructUnusable(Refused):
    """The bytes are no enclave's signature, or it is not true."""

    code = "sigstruct-unusable"


class Signed(msgspec.Struct, frozen=True):
    """The identity that was signed."""

    unique_id: bytes  # MRENCLAVE, 32 bytes
    signer_id: bytes  # MRSIGNER, 32 bytes
    product_id: int
    security_version: int
    debug: bool


def read_sigstruct(raw: bytes) -> Signed:
    """Return what ``raw`` says, once its signature is verified. Raises ``SigstructUnusable``."""
    if len(raw) != SIZE or raw[:16] != _HEADER or raw[24:40] != _HEADER_2:
        raise SigstructUnusable(
            "the file is no enclave's signature (SIGSTRUCT)",
            hint=f"Gramine writes one, of {SIZE} bytes, as APP.sig",
        )
    modulus = raw[128:512]
    signature = int.from_bytes(raw[516:900], "little").to_bytes(384, "big")
    try:
        numbers = rsa.RSAPublicNumbers(3, int.from_bytes(modulus, "little"))
        signed = raw[:128] + raw[900:1028]
        numbers.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        raise SigstructUnusable("the enclave's signature does not verify") from None
    return Signed(
        unique_id=raw[960:992],
        signer_id=hashlib.sha256(modulus).digest(),
        product_id=int.from_bytes(raw[1024:1026], "little"),
        security_version=int.from_bytes(raw[1026:1028], "little"),
        debug=bool(raw[928] & _DEBUG),
    )
