"""Build the URL of a database with the password from a file, never from a command line."""

from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit, urlunsplit

from keyhouse.base.printable import os_reason
from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import (
    STANDBYS,
    StoreUrlError,
    address_of,
    split_url,
    unusable,
)

# The longest password file in bytes.
_LONGEST: Final = 4096


def store_url(text: str, password_file: Path | None, standbys: int = 0) -> Secret:
    """Return the URL ``text`` with the password in the first line of ``password_file``, if given.

    ``standbys``: the least number of standbys that a commit waits for. Raises ``StoreUrlError``.
    """
    parts = split_url(text)
    if STANDBYS in _parameters(parts):
        raise unusable()
    if standbys:
        parts = parts._replace(query=f"{parts.query}&{STANDBYS}={standbys}".lstrip("&"))
    if password_file is not None:
        parts = _with_password(parts, password_file)
    try:
        url = Secret(urlunsplit(parts).encode())
    except UnicodeEncodeError:  # the command line has words that are not UTF-8
        raise unusable() from None
    address_of(url)
    return url


def _with_password(parts: SplitResult, password_file: Path) -> SplitResult:
    user, at, hosts = parts.netloc.rpartition("@")
    if not at or not user or ":" in user:
        raise StoreUrlError(
            "a password file needs a URL with a user and without a password",
            hint="use the form postgresql://USER@HOST/DATABASE",
        )
    password = quote(_password(password_file), safe="")
    return parts._replace(netloc=f"{user}:{password}@{hosts}")


def has_password(text: str) -> bool:
    """Return whether ``text`` has a password, visible to everyone on the machine."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    user, _, _ = parts.netloc.rpartition("@")
    return ":" in user or "password" in _parameters(parts)


def _parameters(parts: SplitResult) -> set[str]:
    """Return the names of the parameters in the URL ``parts``, as the client library reads them."""
    return {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}


def _password(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST + 1)
    except OSError as error:
        raise StoreUrlError(
            f"the file of the store's password cannot be read: {os_reason(error)}",
            hint="check the name and the permissions of the file",
        ) from None
    lines = raw.splitlines()
    try:
        password = lines[0].decode() if lines and len(raw) <= _LONGEST else ""
    except UnicodeDecodeError:
        password = ""
    if not password:
        raise StoreUrlError(
            "the file of the store's password has no password",
            hint="write the password into the first line of the file, as UTF-8",
        )
    return password
