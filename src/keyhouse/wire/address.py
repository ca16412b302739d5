"""Where something listens, as people write it."""

import ipaddress
import re
from typing import Final

import msgspec

__all__ = ["Address", "read_address"]

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


def read_address(text: str, *, port: int) -> Address | None:
    """Return what ``host``, ``host:port`` or ``[IPv6]:port`` names; None if ``text`` is none.

    ``port`` is the one of a text that has none.
    """
    found = _FORM.fullmatch(text)
    if found is None or len(found["host"] or "") > _LONGEST or not _is_address(found["six"]):
        return None
    named = int(found["port"] or port)
    return Address(found["six"] or found["host"], named) if 0 < named <= _PORTS else None


def _is_address(six: str | None) -> bool:
    if six is None:
        return True
    try:
        return bool(ipaddress.IPv6Address(six))
    except ValueError:
        return False
