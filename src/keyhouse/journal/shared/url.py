"""The URL of a database, with the password from a file: it is never on a command line."""

from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from keyhouse.base.printable import os_reason
from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import StoreUrlError, address_of, split_url

_LONGEST: Final = 4096  # bytes of a password


def store_url(text: str, password_file: Path | None) -> Secret:
    """Return the URL ``text`` with the password in the first line of ``password_file``, if given.

    Raises ``StoreUrlError``.
    """
    url = Secret(text.encode()) if password_file is None else _with_password(text, password_file)
    address_of(url)
    return url


def _with_password(text: str, password_file: Path) -> Secret:
    parts = split_url(text)
    user, at, hosts = parts.netloc.rpartition("@")
    if not at or not user or ":" in user:
        raise StoreUrlError(
            "a password file goes with a URL that names a user, and has no password",
            hint="postgresql://USER@HOST/DATABASE",
        )
    password = quote(_password(password_file), safe="")
    return Secret(urlunsplit(parts._replace(netloc=f"{user}:{password}@{hosts}")).encode())


def has_password(text: str) -> bool:
    """Tell whether ``text`` has a password, which everybody on the machine could see."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    user, _, _ = parts.netloc.rpartition("@")
    return ":" in user or "password=" in parts.query


def _password(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST + 1)
    except OSError as error:
        raise StoreUrlError(
            f"the file of the store's password cannot be read: {os_reason(error)}",
            hint="look at its name and permissions",
        ) from None
    lines = raw.splitlines()
    try:
        password = lines[0].decode() if lines and len(raw) <= _LONGEST else ""
    except UnicodeDecodeError:
        password = ""
    if not password:
        raise StoreUrlError(
            "the file of the store's password has no password",
            hint="write it into the first line, as UTF-8",
        )
    return password
