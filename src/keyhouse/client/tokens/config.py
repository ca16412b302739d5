"""The file that names a token, in JSON: for commands, and for programs with the SDK."""

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.wire.json_decoder import decode


class TokenFile(msgspec.Struct, frozen=True):
    """A token: its library and label, and possibly its PIN.

    In the file, the names of the fields match in any case of letters.
    """

    # The library of the token.
    path: str = msgspec.field(default="", name="Path")
    token: str = msgspec.field(default="", name="TokenLabel")
    # If empty, a command asks for the PIN.
    pin: str = msgspec.field(default="", name="Pin")

    def __repr__(self) -> str:
        """Return a text without the PIN."""
        return f"<token {self.token!r}>"


class TokenFileUnusableError(RefusedError):
    """The file of ``--pkcs11-config`` does not name a token."""

    code = "token-file-unusable"


def read_token_file(content: bytes, path: str) -> TokenFile:
    """Return the token in ``content``, the JSON text of the file ``path``.

    Raises ``TokenFileUnusableError``, ``UnreadableError``.
    """
    token = decode(content, TokenFile)
    if not token.path or not token.token:
        raise TokenFileUnusableError(
            f"{path} must name a token by the fields Path and TokenLabel",
            hint='write JSON: {"Path": "/usr/lib/.../libsofthsm2.so", "TokenLabel": "...",'
            ' "Pin": "..."}',
        )
    return token


def read_key_id(text: str) -> bytes:
    """Return the id of a key from the hex ``text``; empty bytes for "". Raises ``ValueError``."""
    key_id = bytes.fromhex(text)
    if text and not key_id:
        raise ValueError("the id has only spaces, which would match any key; write hex digits")
    return key_id
