"""What the coordinator keeps of keys, certificates and secrets: plain bytes, for the state."""

from functools import lru_cache

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_private_key

from keyhouse.authority.curve import Curve
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

# Root and intermediate, for the current state and a few tentative ones.
_PARSED = 16


class CoordinatorKeys(msgspec.Struct, frozen=True):
    """Root, intermediate and marble root with their keys, and the root secret.

    Certificates are DER, private keys PKCS #8 DER, the root secret 32 random bytes. Intermediate
    and marble root share key and subject: a leaf verifies against the marble root, and against the
    root by way of the intermediate. ``dns_names`` and ``ip_addresses`` are those of the
    configuration when the root was made (loopback addresses not included).
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
    """Return the parsed form of one of the coordinator's own keys (PKCS #8 DER), from a cache."""
    return _parse_private_key(pkcs8.reveal())


def certificate_of(der: bytes) -> x509.Certificate:
    """Return the parsed form of one of the coordinator's own certificates (DER), from a cache."""
    return _parse_certificate(der)


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
def _parse_certificate(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise BrokenError("a certificate of the coordinator cannot be read") from None


class StoredSecret(msgspec.Struct, frozen=True):
    """A generated or uploaded value.

    For ``symmetric-key`` and ``plain``, ``private`` and ``public`` are the same bytes and ``cert``
    is empty. For certificates: PKCS #8 DER (empty if a user uploaded none), SubjectPublicKeyInfo
    DER, certificate DER.
    """

    private: Secret
    public: Secret
    cert: bytes = b""
