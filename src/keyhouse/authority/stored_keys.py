"""The stored form of keys, certificates and secrets: plain bytes in the state."""

from functools import lru_cache

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_private_key

from keyhouse.authority.curve import Curve
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

# Maximum of cached keys and certificates: for the present state and a few tentative states.
_PARSED = 16


class CoordinatorKeys(msgspec.Struct, frozen=True):
    """Root, intermediate and marble root with their keys, and the root secret.

    Certificates are DER, private keys PKCS #8 DER, the root secret 32 random bytes. Intermediate
    and marble root have the same key and subject. So a leaf verifies against the marble root, and
    also against the root by way of the intermediate. ``dns_names`` and ``ip_addresses`` come from
    the configuration at the creation of the root (without loopback addresses).
    """

    curve: Curve
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    root_cert: bytes
    root_key: Secret
    intermediate_cert: bytes
    intermediate_key: Secret
    marble_root_cert: bytes
    root_secret: Secret


def private_key_of(pkcs8: Secret) -> ec.EllipticCurvePrivateKey:
    """Return the parsed form of a private key of the coordinator (PKCS #8 DER), from a cache."""
    return _parse_private_key(pkcs8.reveal())


@lru_cache(maxsize=_PARSED)
def _parse_private_key(pkcs8: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_der_private_key(pkcs8, password=None)
    except (ValueError, TypeError):
        raise BrokenError("a private key of the coordinator cannot be read") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BrokenError("a private key of the coordinator is not on an elliptic curve")
    return key


@lru_cache(maxsize=_PARSED)
def certificate_of(der: bytes) -> x509.Certificate:
    """Return the parsed form of a certificate of the coordinator (DER), from a cache."""
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise BrokenError("a certificate of the coordinator cannot be read") from None


class StoredSecret(msgspec.Struct, frozen=True):
    """The stored value of a secret, generated or uploaded.

    For ``symmetric-key`` and ``plain``, ``private`` and ``public`` are the same bytes and ``cert``
    is empty. For certificates: PKCS #8 DER (empty if the user uploaded none), SubjectPublicKeyInfo
    DER, certificate DER.
    """

    private: Secret
    public: Secret
    cert: bytes = b""
