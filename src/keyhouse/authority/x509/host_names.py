"""DNS names and IP addresses in certificates; no generated one may take the coordinator's own."""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from keyhouse.authority.stored_keys import CoordinatorKeys

# Letters, digits, hyphens and underscores in labels of 1 to 63; the leftmost may hold a wildcard.
_LABEL: Final = r"[A-Za-z0-9_-]{1,63}"
_NAME: Final = re.compile(rf"(?:\*|{_LABEL})(?:\.{_LABEL})*\.?")
_LONGEST: Final = 253
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def is_dns_name(text: str) -> bool:
    """Tell whether ``text`` is an ASCII host name, perhaps with ``*`` as its leftmost label."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=256)
def read_address(text: str) -> IPv4Address | IPv6Address:
    """Return the address; ``ValueError`` if it is invalid or has a zone.

    ``::ffff:192.0.2.1`` becomes ``192.0.2.1``: each host has one form, fit for comparison.
    """
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address
    if address.scope_id is not None:
        raise ValueError("a zone has no place in a certificate")
    return address.ipv4_mapped or address


def takes_own_name(keys: CoordinatorKeys, name: str) -> bool:
    """Tell whether a certificate for ``name`` could pass for the coordinator.

    It could if the name is one of those configured, in any case of letters and with or without a
    final dot, or if one of the two is a wildcard that covers the other. Loopback names are free.
    """
    wanted = _canonical(name)
    own = _own_names(keys.dns_names, keys.ip_addresses)
    return any(_covers(wanted, entry) or _covers(entry, wanted) for entry in own)


def takes_own_address(keys: CoordinatorKeys, address: str) -> bool:
    """Tell whether ``address`` (canonical) is one of those configured, loopback excepted."""
    return address not in _LOOPBACK and address in keys.ip_addresses


def own_domains(keys: CoordinatorKeys, *, wildcards: bool) -> tuple[str, ...]:
    """Return domains that hold every DNS name configured, loopback excepted, in order.

    As RFC 5280, 4.2.1.10, reads them: with all names below. With ``wildcards`` they hold all
    wildcards over such a name too: some clients take ``*.example.com`` for ``a.example.com``, but
    do not look for it when ``a.example.com`` is excluded. Wildcards over a single label
    (``*.com``) are left to the clients, which accept none.
    """
    own = (_canonical(name) for name in keys.dns_names)
    return tuple(dict.fromkeys(_domain(name, wildcards) for name in own if name not in _LOOPBACK))


def _domain(name: str, wildcards: bool) -> str:  # noqa: FBT001 private, and named where it is called
    first, _, above = name.partition(".")
    return above if first == "*" or (wildcards and "." in above) else name


def own_networks(keys: CoordinatorKeys) -> Iterator[IPv4Network | IPv6Network]:
    """Yield each configured address, loopback excepted, as a network of one.

    One of IPv4 also in its IPv6 form: to some clients both are the same host.
    """
    for text in keys.ip_addresses:
        if text in _LOOPBACK:
            continue
        address = read_address(text)
        yield ip_network(address)
        if isinstance(address, IPv4Address):
            yield ip_network(f"::ffff:{address}")


@lru_cache(maxsize=4)
def _own_names(dns_names: tuple[str, ...], ip_addresses: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_canonical(entry) for entry in (*dns_names, *ip_addresses)) - _LOOPBACK


@lru_cache(maxsize=256)
def _canonical(name: str) -> str:
    text = name.lower().removesuffix(".")
    try:
        return str(read_address(text))
    except ValueError:
        return text


def _covers(pattern: str, name: str) -> bool:
    if pattern == name:
        return True
    first, _, rest = pattern.partition(".")
    return first == "*" and name.partition(".")[2] == rest
