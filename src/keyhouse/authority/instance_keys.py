"""The two keys of a coordinator process, for a hand-off: an encryption key and a signing key.

A replica encrypts the data key to the encryption key of a second replica. The signing key signs
messages. The private keys exist only in memory of this process; nothing stores or sends them. A
hostile store may keep an encrypted data key for decades, until quantum computers break X25519. So
the key exchange is a hybrid: secure as long as ML-KEM-768 or X25519 is secure. Sources: RFC 9180
(HPKE, base mode), and for the hybrid draft-ietf-hpke-pq.
"""

from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from keyhouse.base.errors import RefusedError
from keyhouse.base.secret import Secret

_ML_KEM: Final = 1184  # bytes of an ML-KEM-768 public key, FIPS 203
KEM_KEY_SIZE: Final = _ML_KEM + 32
"""Bytes of a public sealing key: ML-KEM-768, then X25519."""

SEALING_OVERHEAD: Final = 1088 + 32 + 16
"""Bytes added by sealing: ML-KEM ciphertext, X25519 public key, AES-GCM tag."""

SIGNING_KEY_SIZE: Final = 32  # bytes of an Ed25519 public key, RFC 8032
SIGNATURE_SIZE: Final = 64  # bytes of an Ed25519 signature, RFC 8032

_SUITE: Final = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


class UnusableKeyError(RefusedError):
    """The bytes are not a public encryption key of an instance."""

    next_step = "compare the versions of the two coordinators"

    code = "unusable-key"


class SealedForAnotherError(RefusedError):
    """The message does not decrypt: it is for another key or another use, or was changed."""

    code = "sealed-for-another"


class InstanceKeys:
    """The keys of this process, new at its start.

    ``kem`` and ``signing`` are the public keys, which other replicas receive.
    """

    __slots__ = ("_kem", "_signing", "kem", "signing")

    def __init__(self) -> None:
        ml_kem, x25519 = MLKEM768PrivateKey.generate(), X25519PrivateKey.generate()
        self._kem = hpke.MLKEM768X25519PrivateKey(ml_kem, x25519)
        self._signing = Ed25519PrivateKey.generate()
        exchange = x25519.public_key().public_bytes_raw()
        self.kem: Final = ml_kem.public_key().public_bytes_raw() + exchange
        self.signing: Final = self._signing.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature (64 bytes) over ``message``.

        ``message`` must begin with a text that names its use, so that no signature has two uses.
        """
        return self._signing.sign(message)

    def unseal(self, sealed: bytes, info: bytes) -> Secret:
        """Return the secret that ``seal_for`` encrypted to these keys with the same ``info``.

        Raises ``SealedForAnotherError``, always with the same text.
        """
        try:
            return Secret(_SUITE.decrypt(sealed, self._kem, info))
        except (InvalidTag, ValueError):
            raise SealedForAnotherError(
                "the data key was encrypted for another process, or was changed",
                hint="request the data key again; this process has not used the message",
            ) from None


def seal_for(kem: bytes, secret: Secret, info: bytes) -> bytes:
    """Return ``secret`` encrypted to ``kem``, the public key of an instance (HPKE).

    Decryption needs the private key and the same ``info``, which is public. Raises
    ``UnusableKeyError`` if ``kem`` is not such a key.
    """
    try:
        key = hpke.MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(kem[:_ML_KEM]),
            X25519PublicKey.from_public_bytes(kem[_ML_KEM:]),
        )
        return _SUITE.encrypt(secret.reveal(), key, info)
    except ValueError:
        raise UnusableKeyError(
            "the public key of the process is not an MLKEM768-X25519 key"
        ) from None


def is_signed_by(signing: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether ``signature`` over ``message`` is by the key ``signing`` (Ed25519)."""
    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
