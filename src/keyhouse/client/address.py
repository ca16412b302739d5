"""Where a coordinator's Client API listens."""

from keyhouse.client.errors import ClientSetup
from keyhouse.wire.address import CLIENT_API_PORT, Address, read_address

__all__ = ["DEFAULT_PORT", "Address", "parse_address"]

DEFAULT_PORT = CLIENT_API_PORT


def parse_address(text: str) -> Address:
    """Return ``host``, ``host:port`` or ``[IPv6]:port`` as an address. Raises ``ClientSetup``."""
    return read_address(text, port=DEFAULT_PORT, refused=ClientSetup)
