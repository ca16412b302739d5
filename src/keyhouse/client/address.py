"""Where a coordinator listens."""

import ipaddress
import re

import msgspec

from keyhouse.client.errors import ClientSetup

__all__ = ["DEFAULT_PORT", "Address", "parse_address"]

DEFAULT_PORT = 4433
_PORTS = 65_535
_FORM = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?"
)


class Address(msgspec.Struct, frozen=True):
    """A host name or IP address, and a TCP port."""

    host: str  # IPv6 without brackets
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return ``host``, ``host:port`` or ``[IPv6]:port`` as an address. Raises ``ClientSetup``."""
    found = _FORM.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if not (found and 0 < port <= _PORTS and _is_address(found["six"])):
        raise ClientSetup(
            "the coordinator's address is not host:port",
            hint="such as coordinator.example.com:4433, 10.0.0.7:4433 or [::1]:4433; no https://",
        )
    return Address(found["six"] or found["host"], port)


def _is_address(six: str | None) -> bool:
    if six is None:
        return True
    try:
        return bool(ipaddress.IPv6Address(six))
    except ValueError:
        return False
