"""Elliptic curves: those of the coordinator's keys, with their hashes, and those of secrets."""

from typing import Final, Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

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


# By the size that a manifest asks for: P-224 and P-521 beside those of the coordinator itself.
CURVES: Final[dict[int, type[ec.EllipticCurve]]] = {
    224: ec.SECP224R1,
    256: ec.SECP256R1,
    384: ec.SECP384R1,
    521: ec.SECP521R1,
}


def generate_key(curve: Curve) -> ec.EllipticCurvePrivateKey:
    """Return a fresh private key on ``curve``, drawn by OpenSSL."""
    return ec.generate_private_key(_CURVES[curve]())


def signature_hash(curve: Curve) -> hashes.SHA256 | hashes.SHA384:
    """Return the hash with which keys on ``curve`` sign certificates."""
    return _HASHES[curve]()
