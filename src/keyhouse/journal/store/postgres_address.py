"""Read the URL of a database: the addresses of its servers, and their TLS settings.

The client library (asyncpg) would also use hosts and certificates from variables and files of the
user, and would continue without TLS if a server declines TLS. An unverified server could request
the password in clear text. So TLS verifies the name and the certificate of every server on a
network. Without TLS, only sockets and addresses of this machine are accepted.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.base.secret import Secret

_SCHEMES: Final = frozenset({"postgresql", "postgres"})
_FILES: Final = ("sslrootcert", "sslcert", "sslkey")
_PORT: Final = 5432  # PostgreSQL's registered port
_LONGEST_PORT: Final = 5  # digits of 65535
_FORM: Final = "use the form postgresql://USER@HOST/DATABASE"
_PEM: Final = "name readable PEM files; a key must not be encrypted, and must fit its certificate"


STANDBYS: Final = "standbys"
"""The URL parameter with the number of standbys that a commit has to wait for."""

_AWAITED: Final = re.compile(r"(?:(?:FIRST|ANY)\s+)?([0-9]{1,9})\s*\(", re.ASCII | re.IGNORECASE)


class StoreUrlError(RefusedError):
    """The URL of a store cannot be used. The error does not quote the URL."""

    code = "store-url"


class DatabaseServers(NamedTuple):
    """The servers of a database.

    ``url`` has the remaining parts: user, password, database and settings.
    """

    url: Secret
    hosts: list[str]  # names, IP addresses, or directories of sockets
    ports: list[int]
    tls: ssl.SSLContext | None  # not used for sockets; None: without TLS
    standbys: int  # the least number that a commit waits for


def split_url(text: str) -> SplitResult:
    """Return the parts of ``text``, the URL of a database. Raises ``StoreUrlError``."""
    try:
        parts = urlsplit(text)
    except ValueError:
        raise unusable() from None
    if parts.scheme not in _SCHEMES or not (parts.netloc or parts.query):
        raise unusable()
    return parts


def unusable() -> StoreUrlError:
    """Return the error for a URL that cannot be read."""
    return StoreUrlError("the URL of the store cannot be read", hint=_FORM)


def address_of(url: Secret) -> DatabaseServers:
    """Return the servers in ``url``, and read the certificate files that the URL names.

    Raises ``StoreUrlError``.
    """
    parts = split_url(url.reveal().decode())
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    hosts, ports = _servers(parts, given)
    tls = _tls(given, is_local=all(map(_is_local, hosts)))
    rest = {
        name: value
        for name, value in given.items()
        if name not in {"host", "port", "sslmode", STANDBYS, *_FILES}
    }
    for name in rest:
        if name.startswith("ssl") or name == "service":
            raise StoreUrlError(
                "the URL of the store has a parameter that is not supported",
                hint="use only these parameters for TLS: sslmode, sslrootcert, sslcert, sslkey",
            )
    plain = urlunsplit(parts._replace(query=urlencode(rest)))
    return DatabaseServers(Secret(plain.encode()), hosts, ports, tls, int(given.get(STANDBYS, "0")))


def awaited(names: str) -> int:
    """Return the number of standbys that each commit waits for.

    ``names``: the setting synchronous_standby_names of the server.
    """
    counted = _AWAITED.match(names.strip())
    return int(counted[1]) if counted else int(bool(names.strip()))


def _servers(parts: SplitResult, given: Mapping[str, str]) -> tuple[list[str], list[int]]:
    named = parts.netloc.split("@")
    if len(named) > 2:  # noqa: PLR2004 user and hosts
        raise unusable()
    text = unquote(named[-1]) if parts.netloc and named[-1] else given.get("host", "")
    if not text:
        raise StoreUrlError("the URL of the store names no host", hint=_FORM)
    servers = [_server(each) for each in text.split(",")]
    common = given.get("port")
    ports = [port or _port(common) for _, port in servers]
    return [host for host, _ in servers], ports


def _server(text: str) -> tuple[str, int | None]:
    if text.startswith("/"):
        return text, None
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
    if not host or (colon and (colon != ":" or not port)):
        raise unusable()
    return host, _port(port) if port else None


def _port(text: str | None) -> int:
    if text is None:
        return _PORT
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_PORT):
        raise unusable()
    return int(text)


def _is_local(host: str) -> bool:
    try:
        return host.startswith("/") or host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(given: Mapping[str, str], *, is_local: bool) -> ssl.SSLContext | None:
    """Return the TLS context that verifies servers; None if the URL may be used without TLS.

    ``given``: the parameters of the URL. ``is_local``: all servers are on this machine.
    """
    mode, files = given.get("sslmode"), any(name in given for name in _FILES)
    if mode == "verify-full" or (mode is None and (files or not is_local)):
        return _context(given)
    if mode is None or (mode == "disable" and is_local and not files):
        return None
    raise StoreUrlError(
        "the URL of the store would not verify the server of the database",
        hint="omit sslmode, or write sslmode=verify-full&sslrootcert=FILE; only a server on this"
        " machine can be used without TLS",
    )


@contextmanager
def _reading(names: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError:
        raise StoreUrlError(
            f"{names} of the store's URL cannot be used: invalid PEM", hint=_PEM
        ) from None
    except OSError as error:
        reason = os_reason(error)
        raise StoreUrlError(
            f"{names} of the store's URL cannot be read: {reason}", hint=_PEM
        ) from None


def _context(given: Mapping[str, str]) -> ssl.SSLContext:
    # The default context would follow the variable SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "sslrootcert" in given:
        with _reading("sslrootcert"):
            context.load_verify_locations(given["sslrootcert"])
    else:
        context.set_default_verify_paths()
    if "sslcert" in given or "sslkey" in given:
        if not ("sslcert" in given and "sslkey" in given):
            raise StoreUrlError(
                "sslcert or sslkey is missing in the URL of the store",
                hint="name both files: the certificate with sslcert, and its key with sslkey",
            )
        with _reading("sslcert and sslkey"):
            context.load_cert_chain(given["sslcert"], given["sslkey"], password=lambda: "")
    return context
