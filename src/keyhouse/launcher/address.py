"""Where the coordinator's workload API listens."""

import ipaddress
import re
from typing import Final, NamedTuple

from keyhouse.launcher.errors import LaunchRefused

__all__ = ["DEFAULT_PORT", "MeshAddress", "read_mesh_address"]

DEFAULT_PORT: Final = 2001
_PORTS: Final = 65_535
_FORM: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]{1,253}))(?::(?P<port>[0-9]{1,5}))?"
)


class MeshAddress(NamedTuple):
    """A host name or IP address (IPv6 without brackets), and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_mesh_address(text: str) -> MeshAddress:
    """Return ``host``, ``host:port`` or ``[IPv6]:port``; the port is 2001 if not given."""
    found = _FORM.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if not (found and 0 < port <= _PORTS and _is_address(found["six"])):
        raise LaunchRefused(
            "the coordinator's address is not host:port",
            hint="such as coordinator.example.com:2001, 10.0.0.7:2001 or [::1]:2001; no https://",
        )
    return MeshAddress(found["six"] or found["host"], port)


def _is_address(six: str | None) -> bool:
    if six is None:
        return True
    try:
        return bool(ipaddress.IPv6Address(six))
    except ValueError:
        return False
