"""The key on a token: options, the file of ``--pkcs11-config``, its PIN, and other passwords."""

import getpass
import sys
from pathlib import Path
from typing import Annotated

from keyhouse.base.secret import Secret
from keyhouse.base.user_files import read_file
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
    """Return a password: the first line of ``file``, or without a file the answer on a terminal.

    ``what`` names the password in the prompt. None means an empty answer, or no terminal. Raises
    ``FileUnreadableError``, and ``WrongUsageError`` for a file with an empty first line and for an
    answer that is not UTF-8.
    """
    if file is not None:
        line = read_file(str(file)).partition(b"\n")[0].removesuffix(b"\r")
        if not line:
            raise WrongUsageError(
                f"the first line of the file with the {what} is empty",
                hint=f"write the {what} into the first line of {file}",
            )
        return Secret(line)
    if not sys.stdin.isatty():
        return None
    try:
        typed = getpass.getpass(f"{what}: ", stream=sys.stderr)
    except UnicodeDecodeError:
        raise WrongUsageError(
            f"the {what} is not UTF-8",
            hint=f"type the {what} again, or pass a file with the {what}",
        ) from None
    return Secret(typed.encode()) if typed else None


def passphrase_of(key: Path, pem: Secret, file: Path | None) -> Secret | None:
    """Return the passphrase of the private key in ``pem``, or None for a key without encryption.

    ``key`` is the path of the key. The passphrase is the first line of ``file``, or without a file
    the answer on a terminal. Raises ``WrongUsageError``.
    """
    if not is_encrypted(pem.reveal()):
        if file is not None:
            raise WrongUsageError.no_effect(
                "--key-password-file", f"omit the option: {key} is not encrypted"
            )
        return None
    passphrase = password_for(f"passphrase of {key}", file)
    if passphrase is None:
        raise WrongUsageError(
            f"the key {key} is encrypted, and neither a file nor a terminal states its passphrase",
            hint="pass --key-password-file FILE, with the passphrase in the first line",
        )
    return passphrase


KeyPassword = Annotated[
    Path | None,
    Option(
        "--key-password-file",
        help="file with the passphrase of an encrypted --key in its first line; - for standard"
        " input (default: ask on the terminal)",
    ),
]
TokenConfig = Annotated[
    Path | None,
    Option(
        "--pkcs11-config",
        help="the key is on a token: JSON file with Path (the PKCS #11 library), TokenLabel, and"
        " Pin (default: ask on the terminal)",
    ),
]
TokenKeyId = Annotated[
    str, Option("--pkcs11-key-id", metavar="HEX", help="the key's id on the token")
]
TokenKeyLabel = Annotated[
    str, Option("--pkcs11-key-label", metavar="LABEL", help="the key's label on the token")
]


def named_token(config: Path | None, key_id: str, key_label: str) -> Path:
    """Return ``config``, the file of ``--pkcs11-config`` with the token.

    Raises ``WrongUsageError`` without ``config``, or if both ``key_id`` and ``key_label`` are "".
    """
    if config is None:
        raise WrongUsageError(
            "no option names the file that describes the token", hint="pass --pkcs11-config FILE"
        )
    if not (key_id or key_label):
        raise WrongUsageError(
            "the options name no key on the token",
            hint="pass --pkcs11-key-label or --pkcs11-key-id",
        )
    return config


def token_file(path: Path) -> TokenFile:
    """Read the file of ``--pkcs11-config`` at ``path``. Raises ``TokenFileUnusableError``."""
    with reading(str(path), is_secret=True) as content:
        return read_token_file(content, str(path))


def pin_for(file: TokenFile) -> Secret:
    """Return the token's PIN from ``file``, or else the answer on a terminal.

    Raises ``TokenFileUnusableError`` without a PIN.
    """
    pin = Secret(file.pin.encode()) if file.pin else password_for("PIN of the token", None)
    if pin is None:
        raise TokenFileUnusableError(
            "the PIN of the token is missing: neither the file of --pkcs11-config nor a terminal"
            " states the PIN",
            hint="write the field Pin into the file of --pkcs11-config",
        )
    return pin


def hex_id(text: str, option: str) -> bytes:
    """Return the bytes of ``text``, an id in hex. Raises ``WrongUsageError``, naming ``option``."""
    try:
        return read_key_id(text)
    except ValueError:
        raise WrongUsageError(
            f"{option} {text!r} is not hexadecimal", hint="pass hex digits without 0x, such as a1"
        ) from None
