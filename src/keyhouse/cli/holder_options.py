"""The key of a holder of recovery shares: in a PEM file, or on a PKCS #11 token."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from keyhouse.cli.bundles import Bundle
from keyhouse.cli.context_chosen import ContextOption, chosen_context
from keyhouse.cli.password import password_for
from keyhouse.cli.talk import read_file
from keyhouse.cli.usage import WrongUsage
from keyhouse.wire.errors import Refused
from keyhouse.wire.jsonreader import Unreadable, decode
from keyhouse.wire.secret import Secret

if TYPE_CHECKING:
    from keyhouse.client import RecoveryKey

__all__ = ["Holder", "OfflineContext"]


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


class OfflineContext(Bundle, frozen=True, kw_only=True):
    """A command that needs a context for nothing but the holder's key."""

    context: ContextOption = ""


class Holder(Bundle, frozen=True, kw_only=True):
    """A holder's key, as it was typed."""

    key: Annotated[
        Path | None,
        typer.Option(
            "--key", "-k", metavar="FILE", help="the holder's private RSA key (PEM, not encrypted)"
        ),
    ] = None
    pkcs11_config: Annotated[
        Path | None,
        typer.Option(
            "--pkcs11-config",
            metavar="FILE",
            help="the key is on a token: JSON with Path (its library), TokenLabel, and Pin (asked"
            " for if it is not there)",
        ),
    ] = None
    pkcs11_key_id: Annotated[
        str, typer.Option("--pkcs11-key-id", metavar="HEX", help="the key's id on the token")
    ] = ""
    pkcs11_key_label: Annotated[
        str, typer.Option("--pkcs11-key-label", metavar="LABEL", help="the key's label there")
    ] = ""

    @contextmanager
    def opened(self, context: str, host: str = "") -> Iterator["RecoveryKey | None"]:
        """Give the key, of the options or else of the context; None if none is named.

        Raises ``WrongUsage``, ``TokenFileUnusable``, ``FileUnreadable`` or ``ClientSetup``.
        """
        found = self._settled(context, host)
        if found.pkcs11_config is None:
            yield _from_file(found.key)
            return
        from keyhouse.client import open_token_key

        file, key_id = _token_file(found.pkcs11_config), _hex(found.pkcs11_key_id)
        if not (key_id or found.pkcs11_key_label):
            raise WrongUsage(
                "it is not said which key on the token",
                hint="--pkcs11-key-label or --pkcs11-key-id",
            )
        pin = Secret(file.pin.encode()) if file.pin else password_for("PIN of the token", None)
        if pin is None:
            raise TokenFileUnusable("there is no PIN", hint="put it in the file, or use a terminal")
        with open_token_key(
            Path(file.path),
            token=file.token,
            pin=pin,
            label=found.pkcs11_key_label,
            key_id=key_id,
        ) as key:
            yield key

    def _settled(self, context: str, host: str) -> "Holder":
        token = self.pkcs11_config or self.pkcs11_key_id or self.pkcs11_key_label
        if self.key is not None and token:
            raise WrongUsage("two keys are named", hint="--key, or the key on a token")
        named = None if self.key is not None or token else chosen_context(context, host)
        if named is not None and named.context.pkcs11_config:
            return Holder(
                pkcs11_config=Path(named.context.pkcs11_config),
                pkcs11_key_id=named.context.pkcs11_key_id,
                pkcs11_key_label=named.context.pkcs11_key_label,
            )
        if token and self.pkcs11_config is None:
            raise WrongUsage("it is not said where the token is", hint="--pkcs11-config FILE")
        return self


def _from_file(file: Path | None) -> "RecoveryKey | None":
    from keyhouse.client import HolderKey

    return None if file is None else HolderKey(Secret(read_file(str(file))))


def _token_file(path: Path) -> TokenFile:
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


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise WrongUsage(
            "--pkcs11-key-id is not in hex", hint="such as a1 or 0x.. without 0x"
        ) from None
