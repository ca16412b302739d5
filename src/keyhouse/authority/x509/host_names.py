"""DNS names and IP addresses in certificates. Only the coordinator may have its own names.

A workload with a name of the coordinator in its certificate could pass for the coordinator, because
clients trust the same root for both.
"""

import string
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from keyhouse.authority.keys import CoordinatorKeys

# Labels have 1 to 63 letters, digits, hyphens and underscores. The leftmost may be a wildcard.
_IN_LABEL: Final = frozenset(string.ascii_letters + string.digits + "_-")
_LONGEST_LABEL: Final = 63  # characters
_LONGEST: Final = 253  # characters
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Clients read ::ffff:10.1.2.3 in a certificate as 10.1.2.3, and compare only the IPv6 form with the
# constraints. Go 1.27 reads no certificate with a constraint that begins with ::ffff:0:0. A network
# of one bit less begins with ::fffe:0:0, and contains the IPv6 forms of all IPv4 addresses.
_IPV4_MAPPED: Final = ip_network("::fffe:0:0/95")


def is_dns_name(text: str) -> bool:
    """Return whether ``text`` is an ASCII host name, optionally with ``*`` as leftmost label."""
    if len(text) > _LONGEST:
        return False
    first, *others = text.removesuffix(".").split(".")
    return (first == "*" or _is_label(first)) and all(map(_is_label, others))


def _is_label(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_LABEL and _IN_LABEL.issuperset(text)


@lru_cache(maxsize=256)
def read_address(text: str) -> IPv4Address | IPv6Address:
    """Return the IP address in ``text``. Raises ``ValueError`` if invalid or with a zone.

    ``::ffff:192.0.2.1`` becomes ``192.0.2.1``, so each host has one form for comparison.
    """
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address
    if address.scope_id is not None:
        raise ValueError("a certificate cannot hold the zone of an IP address")
    return address.ipv4_mapped or address


def takes_own_name(keys: CoordinatorKeys, name: str) -> bool:
    """Return whether a certificate for ``name`` could pass for the coordinator.

    True if ``name`` equals a configured name of the coordinator, in any case of letters, with or
    without a final dot. Also true if one of the two names is a wildcard that covers the other name.
    Loopback names are never refused.
    """
    wanted = _canonical(name)
    own = _own_names(keys.dns_names, keys.ip_addresses)
    return any(_covers(wanted, entry) or _covers(entry, wanted) for entry in own)


def takes_own_address(keys: CoordinatorKeys, address: str) -> bool:
    """Return whether ``address`` (canonical) is a configured address of the coordinator.

    Loopback addresses are never refused.
    """
    return address not in _LOOPBACK and address in keys.ip_addresses


def own_domains(keys: CoordinatorKeys, *, wildcards: bool) -> tuple[str, ...]:
    """Return domains that a CA must not sign for, because they contain names of the coordinator.

    The domains contain each configured DNS name except loopback. A domain contains all names below
    it (RFC 5280, 4.2.1.10). With ``wildcards``, the domains also contain each wildcard that covers
    a configured name. Otherwise, despite an exclusion of ``a.example.com``, some clients would
    accept a certificate for ``*.example.com``. Wildcards over a single label (``*.com``) are not
    covered, because clients do not accept such a wildcard.
    """
    own = (_canonical(name) for name in keys.dns_names)
    return tuple(dict.fromkeys(_domain(name, wildcards) for name in own if name not in _LOOPBACK))


def _domain(name: str, wildcards: bool) -> str:  # noqa: FBT001 private; the caller has a named argument
    first, _, above = name.partition(".")
    return above if first == "*" or (wildcards and "." in above) else name


def own_networks(keys: CoordinatorKeys) -> Iterator[IPv4Network | IPv6Network]:
    """Yield each configured address of the coordinator, except loopback, as a network.

    Name constraints require networks; each network contains this address alone. With an IPv4
    address, the last network contains the IPv6 forms of all IPv4 addresses.
    """
    own = tuple(read_address(text) for text in keys.ip_addresses if text not in _LOOPBACK)
    yield from map(ip_network, own)
    if any(isinstance(address, IPv4Address) for address in own):
        yield _IPV4_MAPPED


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
