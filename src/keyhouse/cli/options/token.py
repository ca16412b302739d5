"""Which key on which token: options, the file of ``--pkcs11-config``, its PIN; other passwords."""

import getpass
import sys
from pathlib import Path
from typing import Annotated

from keyhouse.base.named_files import read_file
from keyhouse.base.secret import Secret
from keyhouse.cli.output.files import reading
from keyhouse.cli.parser import Option, WrongUsageError
from keyhouse.client.pem_faults import is_encrypted
from keyhouse.client.tokens.config import (
    TokenFile,
    TokenFileUnusableError,
    read_key_id,
    read_token_file,
)


def password_for(what: str, file: Path | None) -> Secret | None:
    """Return the first line of ``file``; without one, what is typed on the terminal.

    None: nothing was typed, or there is no terminal. Raises ``FileUnreadableError``, and
    ``WrongUsageError`` for an empty file, and for input that is not UTF-8.
    """
    if file is not None:
        line = read_file(str(file)).partition(b"\n")[0].removesuffix(b"\r")
        if not line:
            raise WrongUsageError(f"the file with the {what} has no first line")
        return Secret(line)
    if not sys.stdin.isatty():
        return None
    try:
        typed = getpass.getpass(f"{what}: ", stream=sys.stderr)
    except UnicodeDecodeError:
        raise WrongUsageError(
            f"the {what} is not UTF-8", hint="type it again, or put it in a file"
        ) from None
    return Secret(typed.encode()) if typed else None


def passphrase_of(key: Path, pem: Secret, file: Path | None) -> Secret | None:
    """Return what decrypts the private key in ``pem``; None: it is not encrypted.

    It is the first line of ``file``, or is asked for on the terminal. Raises ``WrongUsageError``.
    """
    if not is_encrypted(pem.reveal()):
        if file is not None:
            raise WrongUsageError.no_effect("--key-password-file", f"{key} is not encrypted")
        return None
    found = password_for(f"passphrase of {key}", file)
    if found is None:
        raise WrongUsageError(
            f"the key {key} is encrypted, and there is no terminal to ask for its passphrase",
            hint="--key-password-file FILE, with the passphrase in its first line",
        )
    return found


KeyPassword = Annotated[
    Path | None,
    Option(
        "--key-password-file",
        help="passphrase of an encrypted --key: the first line; - for standard input (default:"
        " asked for)",
    ),
]
TokenConfig = Annotated[
    Path | None,
    Option(
        "--pkcs11-config",
        help="the key is on a token: JSON with Path (its library), TokenLabel, and Pin (asked for"
        " if it is not there)",
    ),
]
TokenKeyId = Annotated[
    str, Option("--pkcs11-key-id", metavar="HEX", help="the key's id on the token")
]
TokenKeyLabel = Annotated[
    str, Option("--pkcs11-key-label", metavar="LABEL", help="the key's label there")
]


def named_token(config: Path | None, key_id: str, key_label: str) -> Path:
    """Return ``config``. Raises ``WrongUsageError`` unless it and a key are named."""
    if config is None:
        raise WrongUsageError("no token: pass --pkcs11-config")
    if not (key_id or key_label):
        raise WrongUsageError("no key on the token: pass --pkcs11-key-label or --pkcs11-key-id")
    return config


def token_file(path: Path) -> TokenFile:
    """Return what the file at ``path`` says. Raises ``TokenFileUnusableError``."""
    with reading(str(path), is_secret=True) as content:
        return read_token_file(content, str(path))


def pin_for(file: TokenFile) -> Secret:
    """Return the PIN: of the file, or from the terminal. Raises ``TokenFileUnusableError``."""
    pin = Secret(file.pin.encode()) if file.pin else password_for("PIN of the token", None)
    if pin is None:
        raise TokenFileUnusableError(
            "no PIN of the token, and no terminal to ask for it",
            hint="put Pin into the file of --pkcs11-config",
        )
    return pin


def hex_id(text: str, option: str) -> bytes:
    """Return the id that was given with ``option``. Raises ``WrongUsageError``."""
    try:
        return read_key_id(text)
    except ValueError:
        raise WrongUsageError(
            f"{option} is not hexadecimal", hint="such as a1, without 0x"
        ) from None
