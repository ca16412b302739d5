"""The names that no generated certificate may take: the coordinator's own."""

from functools import lru_cache
from typing import Final

from keyhouse.authority.coordinator_keys import CoordinatorKeys
from keyhouse.authority.ip_address import read_address

__all__ = ["takes_own_address", "takes_own_name"]

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def takes_own_name(keys: CoordinatorKeys, name: str) -> bool:
    """Tell whether a certificate for ``name`` could pass for the coordinator.

    So it is if the name is one of those configured, in any case of letters and with or without a
    final dot, or if one of the two is a wildcard that covers the other. Loopback names are free.
    """
    wanted = _canonical(name)
    own = _own_names(keys.dns_names, keys.ip_addresses)
    return any(_covers(wanted, entry) or _covers(entry, wanted) for entry in own)


def takes_own_address(keys: CoordinatorKeys, address: str) -> bool:
    """Tell whether ``address`` (canonical) is one of those configured, loopback excepted."""
    return address not in _LOOPBACK and address in keys.ip_addresses


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
