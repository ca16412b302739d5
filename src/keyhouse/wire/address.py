"""Network addresses as people write them."""

import ipaddress
import re
from typing import Final

import msgspec

from keyhouse.base.connecting import Api
from keyhouse.base.errors import RefusedError

CLIENT_API_PORT: Final = 4433
WORKLOAD_API_PORT: Final = 2001

CLIENT_API: Final = Api("Client API", CLIENT_API_PORT, "workload API", WORKLOAD_API_PORT)
WORKLOAD_API: Final = Api("workload API", WORKLOAD_API_PORT, "Client API", CLIENT_API_PORT)

_PORTS: Final = 65_535
_LONGEST: Final = 253
_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_FORM: Final = re.compile(
    rf"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>{_LABEL}(?:\.{_LABEL})*\.?))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class Address(msgspec.Struct, frozen=True):
    """A host name or IP address, and a TCP port."""

    host: str  # IPv6 without brackets
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_address(text: str, *, port: int, refused: type[RefusedError]) -> Address:
    """Return what ``host``, ``host:port`` or ``[IPv6]:port`` names; ``port`` if it has none.

    Raises ``refused`` for everything else.
    """
    found = _FORM.fullmatch(text)
    if found and len(found["host"] or "") <= _LONGEST and _is_address(found["six"]):
        named = int(found["port"] or port)
        if 0 < named <= _PORTS:
            return Address(found["six"] or found["host"], named)
    raise refused(
        "the coordinator's address is not host:port",
        hint=f"such as coordinator.example.com:{port}, 10.0.0.7:{port} or [::1]:{port};"
        " no https://",
    )


def _is_address(six: str | None) -> bool:
    if six is None:
        return True
    try:
        return bool(ipaddress.IPv6Address(six))
    except ValueError:
        return False
