"""IP addresses as they stand in certificates."""

import ipaddress
from functools import lru_cache

__all__ = ["read_address"]


@lru_cache(maxsize=256)
def read_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address; ``ValueError`` if it is none or has a zone.

    ``::ffff:192.0.2.1`` becomes ``192.0.2.1``: one host, one form, so that comparing is enough.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.scope_id is not None:
        raise ValueError("a zone has no place in a certificate")
    return address.ipv4_mapped or address
