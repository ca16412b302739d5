"""The curve of the coordinator's keys, and the hash that fits it."""

from typing import Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["Curve", "generate_key", "signature_hash"]

Curve = Literal["P-256", "P-384"]
"""Chosen before the first start; a P-256 signature costs about 1/37 of a P-384 one."""

_CURVES: dict[Curve, type[ec.SECP256R1 | ec.SECP384R1]] = {
    "P-256": ec.SECP256R1,
    "P-384": ec.SECP384R1,
}
_HASHES: dict[Curve, type[hashes.SHA256 | hashes.SHA384]] = {
    "P-256": hashes.SHA256,
    "P-384": hashes.SHA384,
}


def generate_key(curve: Curve) -> ec.EllipticCurvePrivateKey:
    """Return a fresh private key on ``curve``, drawn by OpenSSL."""
    return ec.generate_private_key(_CURVES[curve]())


def signature_hash(curve: Curve) -> hashes.SHA256 | hashes.SHA384:
    """Return the hash with which keys on ``curve`` sign certificates."""
    return _HASHES[curve]()
