"""Network addresses as people write them: ``host:port``."""

import ipaddress
import re
from typing import Final

import msgspec

from keyhouse.base.connect_errors import Api
from keyhouse.base.errors import RefusedError
from keyhouse.wire.ports import CLIENT_API_PORT, WORKLOAD_API_PORT

CLIENT_API: Final = Api("Client API", CLIENT_API_PORT, "workload API", WORKLOAD_API_PORT)
WORKLOAD_API: Final = Api("workload API", WORKLOAD_API_PORT, "Client API", CLIENT_API_PORT)

_PORTS: Final = 65_535  # the largest TCP port
_LONGEST: Final = 253  # characters of a host name, RFC 1035, 2.3.4
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
    """Return the address in ``text``: ``host``, ``host:port`` or ``[IPv6]:port``.

    ``port`` applies if the text has no port. Raises the class ``refused`` for any other form.
    """
    match_ = _FORM.fullmatch(text)
    if match_ and len(match_["host"] or "") <= _LONGEST and _is_address(match_["six"]):
        number = int(match_["port"] or port)
        if 0 < number <= _PORTS:
            return Address(match_["six"] or match_["host"], number)
    raise refused(
        "the coordinator's address is not host:port or [IPv6]:port",
        hint=f"write coordinator.example.com:{port}, 10.0.0.7:{port} or [::1]:{port},"
        " without https://",
    )


def _is_address(six: str | None) -> bool:
    if six is None:
        return True
    try:
        return bool(ipaddress.IPv6Address(six))
    except ValueError:
        return False
