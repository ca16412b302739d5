"""Where a coordinator's Client API listens."""

from typing import Final

from keyhouse.client.errors import ClientSetup
from keyhouse.wire.address import Address, read_address

__all__ = ["DEFAULT_PORT", "Address", "parse_address"]

DEFAULT_PORT: Final = 4433


def parse_address(text: str) -> Address:
    """Return ``host``, ``host:port`` or ``[IPv6]:port`` as an address. Raises ``ClientSetup``."""
    address = read_address(text, port=DEFAULT_PORT)
    if address is None:
        raise ClientSetup(
            "the coordinator's address is not host:port",
            hint="such as coordinator.example.com:4433, 10.0.0.7:4433 or [::1]:4433; no https://",
        )
    return address
