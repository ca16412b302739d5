"""The keys of one process of the coordinator: others seal to them, and it signs with them.

The private halves are made with the process and end with it: nothing stores or sends them. What is
sealed may be kept by a hostile store for decades, so the key exchange is a hybrid: it holds as long
as one of ML-KEM-768 and X25519 does. Source: RFC 9180 (HPKE, base mode), and for the hybrid
draft-ietf-hpke-pq.
"""

from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret

_ML_KEM: Final = 1184
KEM_KEY_SIZE: Final = _ML_KEM + 32
"""Bytes of a public key that is sealed to: ML-KEM-768, then X25519."""

SEALING_OVERHEAD: Final = 1088 + 32 + 16
"""Bytes that sealing adds: ciphertext of ML-KEM, public key of X25519, tag of AES-GCM."""

SIGNING_KEY_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64

_SUITE: Final = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


class UnusableKeyError(RefusedError):
    """Nothing can be sealed to these bytes."""

    code = "unusable-key"


class SealedForAnotherError(RefusedError):
    """It was sealed to other keys or for another use, or was changed since."""

    code = "sealed-for-another"


class InstanceKeys:
    """New keys of a process. ``kem`` and ``signing`` are public: the bytes that others are told."""

    __slots__ = ("_kem", "_signing", "kem", "signing")

    def __init__(self) -> None:
        ml_kem, x25519 = MLKEM768PrivateKey.generate(), X25519PrivateKey.generate()
        self._kem = hpke.MLKEM768X25519PrivateKey(ml_kem, x25519)
        self._signing = Ed25519PrivateKey.generate()
        exchange = x25519.public_key().public_bytes_raw()
        self.kem: Final = ml_kem.public_key().public_bytes_raw() + exchange
        self.signing: Final = self._signing.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature, 64 bytes, over ``message``, which begins with its use."""
        return self._signing.sign(message)

    def unseal(self, sealed: bytes, info: bytes) -> Secret:
        """Return what ``seal_for`` sealed to these keys with the same ``info``.

        Raises ``SealedForAnotherError``, always with the same words.
        """
        try:
            return Secret(_SUITE.decrypt(sealed, self._kem, info))
        except (InvalidTag, ValueError):
            raise SealedForAnotherError(
                "it was not sealed for this process, or was changed since"
            ) from None


def seal_for(kem: bytes, secret: Secret, info: bytes) -> bytes:
    """Return ``secret`` sealed to the holder of ``kem``, bound to ``info``, which is not secret.

    Raises ``UnusableKeyError``.
    """
    try:
        key = hpke.MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(kem[:_ML_KEM]),
            X25519PublicKey.from_public_bytes(kem[_ML_KEM:]),
        )
        return _SUITE.encrypt(secret.reveal(), key, info)
    except ValueError:
        raise UnusableKeyError("nothing can be sealed to this key") from None


def is_signed_by(signing: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether ``signature`` over ``message`` is by the holder of ``signing`` (Ed25519)."""
    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
