"""The key to which holders encrypt their shares for the time of one recovery."""

from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.base.errors import BadRequestError
from keyhouse.base.secret import Secret

_BITS: Final = 4096
_OAEP: Final = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)


class EphemeralKey:
    """An RSA key of 4096 bits (exponent 65537) that lives in memory only.

    Making one takes up to some seconds of a processor. ``public_key`` is SubjectPublicKeyInfo DER.
    Source: wire reference of the interface, "GET /api/v2/recover/public-key".
    """

    __slots__ = ("_key", "public_key")

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, _BITS)
        self.public_key: Final = self._key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )

    def decrypt(self, ciphertext: bytes) -> Secret:
        """Return what was encrypted: RSA-OAEP, SHA-256 for hash and MGF1, empty label.

        Raises ``BadRequestError``, always with the same words, if it was not encrypted to this key.
        """
        try:
            return Secret(self._key.decrypt(ciphertext, _OAEP))
        except ValueError:
            raise BadRequestError(
                "the share cannot be decrypted",
                fields={"recoverySecret": "is neither a share nor encrypted to the present key"},
                hint="encrypt it to the key of GET /api/v2/recover/public-key; a restart makes"
                " another",
            ) from None
