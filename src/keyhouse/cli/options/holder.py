"""The key of a holder of recovery shares: in a PEM file, or on a PKCS #11 token."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keyhouse.base.secret import Secret
from keyhouse.cli.options.context_chosen import ContextOption, chosen_context
from keyhouse.cli.options.token import (
    TokenConfig,
    TokenKeyId,
    TokenKeyLabel,
    hex_id,
    named_token,
    pin_for,
    token_file,
)
from keyhouse.cli.output.bundles import Bundle
from keyhouse.cli.output.talk import read_file
from keyhouse.cli.output.usage import WrongUsage

if TYPE_CHECKING:
    from keyhouse.client import RecoveryKey

__all__ = ["Holder", "OfflineContext"]


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
    pkcs11_config: TokenConfig = None
    pkcs11_key_id: TokenKeyId = ""
    pkcs11_key_label: TokenKeyLabel = ""

    @contextmanager
    def opened(self, context: str, host: str = "") -> Iterator["RecoveryKey | None"]:
        """Give the key, of the options or else of the context; None if none is named.

        Raises ``WrongUsage``, ``TokenFileUnusable``, ``FileUnreadable`` or ``ClientSetup``.
        """
        found = self._settled(context, host)
        if not found.is_on_token():
            yield _from_file(found.key)
            return
        from keyhouse.client import open_token_key

        file = token_file(
            named_token(found.pkcs11_config, found.pkcs11_key_id, found.pkcs11_key_label)
        )
        key_id = hex_id(found.pkcs11_key_id, "--pkcs11-key-id")
        with open_token_key(
            Path(file.path),
            token=file.token,
            pin=pin_for(file),
            label=found.pkcs11_key_label,
            key_id=key_id,
        ) as key:
            yield key

    def _settled(self, context: str, host: str) -> "Holder":
        if self.key is not None and self.is_on_token():
            raise WrongUsage("two keys are named", hint="--key, or the key on a token")
        is_typed = self.key is not None or self.is_on_token()
        named = None if is_typed else chosen_context(context, host)
        if named is not None and named.context.pkcs11_config:
            return Holder(
                pkcs11_config=Path(named.context.pkcs11_config),
                pkcs11_key_id=named.context.pkcs11_key_id,
                pkcs11_key_label=named.context.pkcs11_key_label,
            )
        return self

    def is_on_token(self) -> bool:
        """Return whether anything about a token was typed."""
        return bool(self.pkcs11_config or self.pkcs11_key_id or self.pkcs11_key_label)


def _from_file(file: Path | None) -> "RecoveryKey | None":
    from keyhouse.client import HolderKey

    return None if file is None else HolderKey(Secret(read_file(str(file))))
