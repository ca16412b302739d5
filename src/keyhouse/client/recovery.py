"""A holder's part of a recovery: the checks before any decryption or upload.

A coordinator in recovery mode has a temporary root, which a verified quote binds. Then the holder
checks, in this order:

1. The temporary root signed the ephemeral key (``Offer``), so an attacker cannot replace this key.
2. The recovery index names the root that the holder kept. Otherwise the state belongs to a
   different deployment.
3. The holder's own key is among the keys in the recovery index.

Only then the share is decrypted, signed, encrypted to the ephemeral key, and sent. Source:
``docs/explanation/cryptography.md``, "Recovery".
"""

import hashlib
import hmac
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

from keyhouse.base.secret import Secret
from keyhouse.client.errors import ClientSetupError, TrustError
from keyhouse.client.pem_faults import is_encrypted, key_fault
from keyhouse.client.root_signature import require_signature
from keyhouse.wire.client_api import Offer

_EPHEMERAL_CONTEXT: Final = b"keyhouse ephemeral v1\0"
# The ephemeral key of an offer has at least this number of bits, and exactly this exponent.
_LEAST_BITS: Final = 4096
_EXPONENT: Final = 65537  # F4, the usual exponent
_OAEP: Final = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)


class RecoveryKey(Protocol):
    """The private key of a holder, in memory or on a token."""

    @property
    def public_key(self) -> bytes:
        """Return the holder's public key: SubjectPublicKeyInfo, DER."""
        ...

    def decrypt(self, ciphertext: bytes) -> Secret:
        """Return the plain share in ``ciphertext``: RSA-OAEP, SHA-256, empty label."""
        ...

    def sign(self, share: Secret) -> bytes:
        """Return the signature over the plain share: RSA PKCS #1 v1.5, SHA-256."""
        ...


class HolderKey:
    """The private key of a holder: an RSA key in PEM, which ``password`` decrypts.

    Raises ``ClientSetupError`` for an unusable key.
    """

    __slots__ = ("_key",)

    def __init__(self, pem: Secret, password: Secret | None = None) -> None:
        try:
            key = load_pem_private_key(pem.reveal(), password.reveal() if password else None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _unreadable(pem, password) from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ClientSetupError(
                "the recovery key is not an RSA key", hint="pass the private key of the holder"
            )
        self._key = key

    @property
    def public_key(self) -> bytes:
        """Return the holder's public key: SubjectPublicKeyInfo, DER."""
        public = self._key.public_key()
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def decrypt(self, ciphertext: bytes) -> Secret:
        """Return the plain share in ``ciphertext``.

        Raises ``ClientSetupError`` if the share is for another key.
        """
        try:
            return Secret(self._key.decrypt(ciphertext, _OAEP))
        except ValueError:
            raise ClientSetupError(
                "the recovery secret is not encrypted to this recovery key",
                hint="use the recovery secret under the name of this key",
            ) from None

    def sign(self, share: Secret) -> bytes:
        """Return the signature over the plain share: RSA PKCS #1 v1.5, SHA-256."""
        return self._key.sign(share.reveal(), padding.PKCS1v15(), hashes.SHA256())


def _unreadable(pem: Secret, password: Secret | None) -> ClientSetupError:
    if not is_encrypted(pem.reveal()):
        fault = key_fault(pem.reveal())
        return ClientSetupError(f"the recovery key {fault.problem}", hint=fault.hint)
    if password is None:
        return ClientSetupError(
            "the recovery key is encrypted", hint="pass the passphrase of the key"
        )
    return ClientSetupError("the recovery key cannot be decrypted", hint="check the passphrase")


def require_offer(offer: Offer, root_der: bytes) -> None:
    """Require that the verified root has signed the ephemeral key in ``offer``.

    The key must be an RSA key of 4096 bits or more. After the error ``TrustError``, encrypt nothing
    to this key.
    """
    message = _EPHEMERAL_CONTEXT + offer.ephemeral_public_key
    require_signature(
        root_der,
        message,
        offer.signature,
        "the key for the recovery",
        hint="send nothing: an attacker with this key could read the share",
    )
    _ephemeral_key(offer.ephemeral_public_key)


def require_root(offer: Offer, kept_root: bytes) -> None:
    """Require that the state for the recovery has the root certificate (DER) that the holder kept.

    Raises ``TrustError`` for another deployment.
    """
    if not hmac.compare_digest(offer.index.root, kept_root):
        raise TrustError(
            "the state to be recovered does not have the root certificate that you kept",
            hint="send nothing: the state is of another deployment, or forged",
        )


def require_remembered(offer: Offer, root: str) -> None:
    """Require that the state for the recovery has the remembered ``root`` (SHA-256, hex).

    "" means that no root is remembered. Raises ``TrustError`` for another root: then another
    deployment was at this address.
    """
    if root and not hmac.compare_digest(hashlib.sha256(offer.index.root).hexdigest(), root):
        raise TrustError(
            "the state to be recovered does not have the root certificate that is remembered for"
            " this address",
            hint="send nothing: the state is of another deployment, or forged; keyhouse trust show"
            " lists the remembered roots",
        )


def require_listed(offer: Offer, public_key: bytes) -> str:
    """Return the name of the holder's ``public_key`` in the recovery index of ``offer``.

    The key is SubjectPublicKeyInfo in DER. Raises ``TrustError`` for an unlisted key: the state
    does not belong to this holder.
    """
    for name, listed in offer.index.keys.items():
        if hmac.compare_digest(listed, public_key):
            return name
    raise TrustError(
        "your key is not among the recovery keys of the state to be recovered",
        hint="send nothing: this is another deployment, an old state, or a state with other"
        " recovery keys",
    )


def require_signed(offer: Offer, share: Secret, signature: bytes) -> str:
    """Return the name of the recovery key in ``offer`` whose ``signature`` covers the plain share.

    Raises ``TrustError`` if no listed key made the signature.
    """
    for name, listed in offer.index.keys.items():
        if _verifies(listed, signature, share):
            return name
    raise TrustError(
        "no recovery key of the state to be recovered has signed this share; nothing was sent",
        hint="check the address of the coordinator, and that share and signature belong together",
    )


def encrypt_share(ephemeral_public_key: bytes, share: Secret) -> bytes:
    """Return the plain share, encrypted to an offer's key (DER): RSA-OAEP, SHA-256, empty label.

    Raises ``TrustError`` unless the key is an RSA key of at least 4096 bits.
    """
    return _ephemeral_key(ephemeral_public_key).encrypt(share.reveal(), _OAEP)


def _ephemeral_key(der: bytes) -> rsa.RSAPublicKey:
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, rsa.RSAPublicKey) and _is_strong(key):
        return key
    raise TrustError(
        "the coordinator's key for recovery secrets is not an RSA key of 4096 bits or more"
    )


def _is_strong(key: rsa.RSAPublicKey) -> bool:
    return key.key_size >= _LEAST_BITS and key.public_numbers().e == _EXPONENT


def _verifies(public_key: bytes, signature: bytes, share: Secret) -> bool:
    try:
        key = load_der_public_key(public_key)
        if not isinstance(key, rsa.RSAPublicKey):
            return False
        key.verify(signature, share.reveal(), padding.PKCS1v15(), hashes.SHA256())
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True
