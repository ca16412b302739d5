"""The permitted kinds and sizes of client keys."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from support.samples.fixed_keys import dsa_key

from keyhouse.base.client_keys import has_costly_key

ISSUER = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "client")])
BEGIN = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def certificate(key: CertificatePublicKeyTypes) -> bytes:
    built = x509.CertificateBuilder(NAME, NAME, key, 1, BEGIN, BEGIN + dt.timedelta(1))
    return built.sign(ISSUER, hashes.SHA256()).public_bytes(Encoding.DER)


def rsa_key(bits: int, exponent: int = 65537) -> rsa.RSAPublicKey:
    """Return a key of ``bits`` bits without a usable modulus; only its size matters."""
    return rsa.RSAPublicNumbers(exponent, (1 << (bits - 1)) + 1).public_key()


CHEAP = {
    "RSA of 8192 bits": rsa_key(8192),
    "RSA, exponent of 32 bits": rsa_key(2048, (1 << 31) + 1),
    "P-256": ISSUER.public_key(),
    "P-384": ec.generate_private_key(ec.SECP384R1()).public_key(),
    "P-521": ec.generate_private_key(ec.SECP521R1()).public_key(),
    "Ed25519": ed25519.Ed25519PrivateKey.generate().public_key(),
    "Ed448": ed448.Ed448PrivateKey.generate().public_key(),
    "ML-DSA-44": mldsa.MLDSA44PrivateKey.generate().public_key(),
    "ML-DSA-65": mldsa.MLDSA65PrivateKey.generate().public_key(),
    "ML-DSA-87": mldsa.MLDSA87PrivateKey.generate().public_key(),
}
COSTLY = {
    "RSA of 8193 bits": rsa_key(8193),
    "RSA, exponent of 33 bits": rsa_key(2048, (1 << 32) + 1),
    "secp256k1": ec.generate_private_key(ec.SECP256K1()).public_key(),
    "brainpoolP384r1": ec.generate_private_key(ec.BrainpoolP384R1()).public_key(),
    "DSA": dsa_key().public_key(),
}


@pytest.mark.parametrize("key", CHEAP.values(), ids=CHEAP.keys())
def test_proof_by_an_ordinary_key_is_checked(key: CertificatePublicKeyTypes) -> None:
    assert not has_costly_key(certificate(key))


@pytest.mark.parametrize("key", COSTLY.values(), ids=COSTLY.keys())
def test_large_or_unusual_key_is_costly(key: CertificatePublicKeyTypes) -> None:
    assert has_costly_key(certificate(key))


@pytest.mark.parametrize("data", [b"", b"garbage", certificate(ISSUER.public_key())[:-1]])
def test_unreadable_certificate_is_costly(data: bytes) -> None:
    assert has_costly_key(data)
