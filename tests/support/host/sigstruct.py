"""The signature of an enclave (SIGSTRUCT), as an enclave signer makes it."""

from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from keyhouse.cli.attest.package_info import SIZE
from support.samples.fixed_keys import unused_rsa_key

__all__ = ["KEY", "UNIQUE_ID", "sigstruct"]

KEY: Final = unused_rsa_key(3072, exponent=3)
UNIQUE_ID: Final = bytes(range(32))


def sigstruct(*, debug: bool = False, key: rsa.RSAPrivateKey = KEY) -> bytes:
    """Return a SIGSTRUCT with a signature by ``key``."""
    raw = bytearray(SIZE)
    raw[:16] = bytes.fromhex("06000000e10000000000010000000000")
    raw[24:40] = bytes.fromhex("01010000600000006000000001000000")
    raw[928] = 0b10 if debug else 0
    raw[960:992] = UNIQUE_ID
    raw[1024:1028] = (7).to_bytes(2, "little") + (258).to_bytes(2, "little")
    signed = bytes(raw[:128] + raw[900:1028])
    raw[128:512] = key.public_key().public_numbers().n.to_bytes(384, "little")
    raw[512:516] = (3).to_bytes(4, "little")
    raw[516:900] = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())[::-1]
    return bytes(raw)
