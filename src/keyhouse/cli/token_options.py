"""Which token: the file of ``--pkcs11-config``, its PIN, and how keys on it are named."""

from pathlib import Path

import msgspec

from keyhouse.cli.password import password_for
from keyhouse.cli.talk import read_file
from keyhouse.cli.usage import WrongUsage
from keyhouse.wire.errors import Refused
from keyhouse.wire.jsonreader import Unreadable, decode
from keyhouse.wire.secret import Secret

__all__ = ["TokenFile", "TokenFileUnusable", "hex_id", "pin_for", "token_file"]


class TokenFile(msgspec.Struct, frozen=True):
    """The file of ``--pkcs11-config``, JSON; names match in any case."""

    path: str = msgspec.field(default="", name="Path")  # the token's library
    token: str = msgspec.field(default="", name="TokenLabel")
    pin: str = msgspec.field(default="", name="Pin")  # not given: asked for

    def __repr__(self) -> str:
        """Show no PIN."""
        return f"<token {self.token!r}>"


class TokenFileUnusable(Refused):
    """The file of ``--pkcs11-config`` does not name a token."""

    code = "token-file-unusable"


def token_file(path: Path) -> TokenFile:
    """Return what the file at ``path`` says. Raises ``TokenFileUnusable``, ``FileUnreadable``."""
    try:
        found = decode(read_file(str(path)), TokenFile)
    except Unreadable:
        found = TokenFile()
    if not found.path or not found.token:
        raise TokenFileUnusable(
            f"{path} does not name a token",
            hint='JSON: {"Path": "/usr/lib/.../libsofthsm2.so", "TokenLabel": "...", "Pin": "..."}',
        )
    return found


def pin_for(file: TokenFile) -> Secret:
    """Return the PIN, of the file or as it is typed. Raises ``TokenFileUnusable``."""
    pin = Secret(file.pin.encode()) if file.pin else password_for("PIN of the token", None)
    if pin is None:
        raise TokenFileUnusable("there is no PIN", hint="put it in the file, or use a terminal")
    return pin


def hex_id(text: str, option: str) -> bytes:
    """Return the id that was given with ``option``. Raises ``WrongUsage``."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise WrongUsage(f"{option} is not in hex", hint="such as a1, without 0x") from None
