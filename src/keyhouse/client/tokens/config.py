"""The file that names a token: JSON, the same for commands and programs."""

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.wire.json_decoder import decode


class TokenFile(msgspec.Struct, frozen=True):
    """A token: its library and label, and perhaps its PIN; names match in any case."""

    path: str = msgspec.field(default="", name="Path")  # the token's library
    token: str = msgspec.field(default="", name="TokenLabel")
    pin: str = msgspec.field(default="", name="Pin")  # not given: asked for

    def __repr__(self) -> str:
        """Show no PIN."""
        return f"<token {self.token!r}>"


class TokenFileUnusableError(RefusedError):
    """The file of ``--pkcs11-config`` does not name a token."""

    code = "token-file-unusable"


def read_token_file(content: bytes, path: str) -> TokenFile:
    """Return what the file ``path`` says.

    Raises ``TokenFileUnusableError``, ``UnreadableError``.
    """
    found = decode(content, TokenFile)
    if not found.path or not found.token:
        raise TokenFileUnusableError(
            f"{path} does not name a token",
            hint='JSON: {"Path": "/usr/lib/.../libsofthsm2.so", "TokenLabel": "...", "Pin": "..."}',
        )
    return found


def read_key_id(text: str) -> bytes:
    """Return the id of a key that ``text`` says in hex; b"" for "". Raises ``ValueError``."""
    found = bytes.fromhex(text)
    if text and not found:
        raise ValueError("spaces alone are valid hex, and would match any key")
    return found
