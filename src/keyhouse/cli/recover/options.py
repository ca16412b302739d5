"""Arguments and options of the recovery commands, with the share holder's key."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from keyhouse.base.secret import Secret
from keyhouse.base.user_files import read_file
from keyhouse.cli.manifest.file import names_of
from keyhouse.cli.options import token as tokens
from keyhouse.cli.options.context_option import ContextOption, context_for
from keyhouse.cli.parser import Argument, Option, OptionGroup, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.client import RecoveryKey

ShareFile = Annotated[
    Path,
    Argument(
        help="file with the recovery secret: the JSON file of manifest set, or a single secret,"
        " encrypted or decrypted, binary or base64; - for standard input",
        metavar="FILE",
    ),
]
ShareName = Annotated[
    str,
    Option(
        "--name",
        metavar="NAME",
        complete=names_of("RecoveryKeys"),
        help="name of the recovery key in a JSON file (upload: default is the name of your key)",
    ),
]
OutputFile = Annotated[
    str, Option("--output", "-o", metavar="FILE", help="new file (default: standard output)")
]


class OfflineContext(OptionGroup, frozen=True, kw_only=True):
    """The context for a command without a coordinator: the context may name the holder's key."""

    context: ContextOption = ""


class Holder(OptionGroup, frozen=True, kw_only=True):
    """The holder's private key: in a PEM file, or on a PKCS #11 token."""

    section = "Recovery key"

    key: Annotated[
        Path | None, Option("--key", "-k", help="the holder's private RSA key (PEM)")
    ] = None
    key_password: tokens.KeyPassword = None
    pkcs11_config: tokens.TokenConfig = None
    pkcs11_key_id: tokens.TokenKeyId = ""
    pkcs11_key_label: tokens.TokenKeyLabel = ""

    @contextmanager
    def open_key(self, context: str, host: str = "") -> Iterator["RecoveryKey | None"]:
        """Yield the holder's key from the options or else from the context, or None without a key.

        ``context`` is the value of ``--context``. ``host`` is the address on the command line: a
        context in use for a different address does not apply.

        Raises ``WrongUsageError``, ``TokenFileUnusableError``, ``FileUnreadableError`` or
        ``ClientSetupError``.
        """
        holder = self._resolve(context, host)
        if not holder.is_on_token():
            yield _from_file(holder.key, holder.key_password)
            return
        from keyhouse.client import open_token_key

        file = tokens.token_file(
            tokens.named_token(holder.pkcs11_config, holder.pkcs11_key_id, holder.pkcs11_key_label)
        )
        key_id = tokens.hex_id(holder.pkcs11_key_id, "--pkcs11-key-id")
        with open_token_key(
            Path(file.path),
            token=file.token,
            pin=tokens.pin_for(file),
            label=holder.pkcs11_key_label,
            key_id=key_id,
        ) as key:
            yield key

    def _resolve(self, context: str, host: str) -> "Holder":
        if self.key is not None and self.is_on_token():
            raise WrongUsageError(
                "the options name two keys: the key of --key, and a key on the token",
                hint="omit --key, or omit the options that begin with --pkcs11",
            )
        is_typed = self.key is not None or self.is_on_token()
        context_used = None if is_typed else context_for(context, host)
        if context_used is not None and context_used.context.pkcs11_config:
            return Holder(
                pkcs11_config=Path(context_used.context.pkcs11_config),
                pkcs11_key_id=context_used.context.pkcs11_key_id,
                pkcs11_key_label=context_used.context.pkcs11_key_label,
            )
        return self

    def is_on_token(self) -> bool:
        """Return whether an option for a token is given."""
        return bool(self.pkcs11_config or self.pkcs11_key_id or self.pkcs11_key_label)


def _from_file(file: Path | None, password: Path | None) -> "RecoveryKey | None":
    from keyhouse.client import ClientSetupError, HolderKey

    if file is None:
        return None
    pem = Secret(read_file(str(file)))
    try:
        return HolderKey(pem, tokens.passphrase_of(file, pem, password))
    except ClientSetupError as error:
        raise ClientSetupError(f"{file}: {error.message}", hint=error.hint) from None
