"""The names that a workload asks to have in its certificate."""

import ipaddress
import re
from typing import Final, NamedTuple

from keyhouse.launcher.errors import LaunchRefused

__all__ = ["Names", "read_names"]

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOOPBACK: Final = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
# The coordinator decides what a name may be; this only keeps out what no certificate can hold.
_NAME: Final = re.compile(r"[A-Za-z0-9_.*-]{1,253}")


class Names(NamedTuple):
    """DNS names, and IP addresses: 127.0.0.1 and ::1 first, then those that were asked for."""

    dns: tuple[str, ...]
    ips: tuple[IpAddress, ...]


def read_names(text: str) -> Names:
    """Return the names of a comma-separated list, in its order, each once.

    White space around an entry and empty entries are dropped. An entry that parses as an IP
    address is one. Source: wire reference, "Launcher".
    """
    dns: dict[str, None] = {}
    ips: dict[IpAddress, None] = dict.fromkeys(_LOOPBACK)
    for position, entry in enumerate(part.strip() for part in text.split(",")):
        if not entry:
            continue
        address = _address(entry)
        if address is not None:
            ips[address] = None
        elif _NAME.fullmatch(entry):
            dns[entry] = None
        else:
            raise LaunchRefused(
                f"entry {position + 1} of the DNS names is neither a name nor an IP address",
                hint="write international names in their ASCII form (xn--...)",
            )
    return Names(tuple(dns), tuple(ips))


def _address(entry: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(entry)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise LaunchRefused(
            "an IP address of the DNS names has a zone", hint="a certificate has no place for it"
        )
    return address
