"""The key of a user, as it signs approvals: wherever it is."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from keyhouse.base.secret import Secret
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.identity import ClientIdentity, PemIdentity, UserIdentity
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.signing import sign_on_token
from keyhouse.transparency.approval import signature_by, signs_approvals


class Signer(NamedTuple):
    """A user's certificate (DER), and what returns its key's signature over a message.

    ``sign`` may block, and raises ``ClientSetupError``.
    """

    certificate: bytes
    sign: Callable[[bytes], bytes]


def signer_of(user: UserIdentity | TokenIdentity | None) -> Signer | None:
    """Return how ``user`` signs; None if the key is of a kind that signs no approvals.

    It may read files. Raises ``ClientSetupError``.
    """
    if isinstance(user, ClientIdentity):
        user = user.read()
    if isinstance(user, TokenIdentity):
        certificate = _der(user.certificate)
        sign = partial(sign_on_token, user, certificate)
    elif isinstance(user, PemIdentity):
        certificate = _der(user.certificate)
        sign = partial(_sign, user.key)
    else:
        return None
    return Signer(certificate, sign) if signs_approvals(certificate) else None


def _der(pem: bytes) -> bytes:
    try:
        return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    except (ValueError, x509.InvalidVersion):
        raise ClientSetupError("the user's certificate cannot be read") from None


def _sign(key: Secret, message: bytes) -> bytes:
    try:
        private = load_pem_private_key(key.reveal(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetupError("the user's key cannot be read") from None
    return signature_by(private, message)
