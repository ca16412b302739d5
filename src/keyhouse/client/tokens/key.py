"""A holder's recovery key on a PKCS #11 token: it signs and decrypts there.

The key never leaves the token. Needs the extra ``keyhouse[pkcs11]`` (python-pkcs11) and the token's
own library. For users in TLS, see ``tokens.identity``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.base.secret import Secret
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.tokens.session import LOOK, open_token


class TokenKey:
    """An RSA private key on a token. The key is usable while the session with the token is open."""

    def __init__(self, key: Any) -> None:
        self._key = key
        self.public_key: Final = _public_key(key)
        """SubjectPublicKeyInfo, DER."""

    def decrypt(self, ciphertext: bytes) -> Secret:
        """Return the plain share. Raises ``ClientSetupError``.

        Not every token can decrypt a share: SoftHSM 2.6 supports RSA-OAEP with SHA-1 only.
        """
        from pkcs11 import MGF, Mechanism, PKCS11Error

        oaep = (Mechanism.SHA256, MGF.SHA256, None)
        try:
            return Secret(
                self._key.decrypt(
                    ciphertext, mechanism=Mechanism.RSA_PKCS_OAEP, mechanism_param=oaep
                )
            )
        except PKCS11Error as error:
            raise ClientSetupError(
                f"the token does not decrypt the recovery secret ({type(error).__name__})",
                hint="check that the secret is for this key, and that the token supports RSA-OAEP"
                " with SHA-256",
            ) from None

    def sign(self, share: Secret) -> bytes:
        """Return the signature over the plain share: RSA PKCS #1 v1.5, SHA-256."""
        from pkcs11 import Mechanism, PKCS11Error

        try:
            return bytes(self._key.sign(share.reveal(), mechanism=Mechanism.SHA256_RSA_PKCS))
        except PKCS11Error as error:
            raise ClientSetupError(
                f"the token does not sign ({type(error).__name__})",
                hint="allow the key to sign: set CKA_SIGN",
            ) from None


@contextmanager
def open_token_key(
    library: Path, *, token: str, pin: Secret, label: str = "", key_id: bytes = b""
) -> Iterator[TokenKey]:
    """Yield the RSA private key with this ``label`` and ``key_id`` on a token.

    ``library`` is the PKCS #11 module of the token, and ``token`` its label. An empty ``label`` or
    ``key_id`` matches any. Raises ``ClientSetupError``. Messages never contain the PIN.
    """
    with open_token(library, token, pin) as opened:
        import pkcs11

        try:
            key = opened.get_key(
                pkcs11.ObjectClass.PRIVATE_KEY, label=label or None, id=key_id or None
            )
        except pkcs11.PKCS11Error as error:
            raise ClientSetupError(
                "the token does not have exactly one private key with this label or id"
                f" ({type(error).__name__})",
                hint=LOOK,
            ) from None
        yield TokenKey(key)


def _public_key(key: Any) -> bytes:
    from pkcs11 import Attribute, KeyType, PKCS11Error

    try:
        modulus, exponent = key[Attribute.MODULUS], key[Attribute.PUBLIC_EXPONENT]
        if key.key_type != KeyType.RSA:
            raise ClientSetupError("the key on the token must be an RSA key", hint=LOOK)
    except (PKCS11Error, KeyError) as error:
        raise ClientSetupError(
            f"the token does not return the public half of the key ({type(error).__name__})",
            hint=LOOK,
        ) from None
    numbers = rsa.RSAPublicNumbers(int.from_bytes(exponent), int.from_bytes(modulus))
    return numbers.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
