"""DNS names and IP addresses as they are in certificates."""

import ipaddress
import re
from functools import lru_cache
from typing import Final

# Letters, digits, hyphens and underscores in labels of 1 to 63; the leftmost may hold a wildcard.
_LABEL: Final = r"[A-Za-z0-9_-]{1,63}"
_NAME: Final = re.compile(rf"(?:\*|{_LABEL})(?:\.{_LABEL})*\.?")
_LONGEST: Final = 253


def is_dns_name(text: str) -> bool:
    """Tell whether ``text`` is an ASCII host name, perhaps with ``*`` as its leftmost label."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=256)
def read_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address; ``ValueError`` if it is invalid or has a zone.

    ``::ffff:192.0.2.1`` becomes ``192.0.2.1``: each host has one form, fit for comparison.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.scope_id is not None:
        raise ValueError("a zone has no place in a certificate")
    return address.ipv4_mapped or address
