"""Where a coordinator's workload API listens."""

from typing import Final

from keyhouse.launcher.errors import LaunchRefused
from keyhouse.wire.address import Address, read_address

__all__ = ["DEFAULT_PORT", "read_mesh_address"]

DEFAULT_PORT: Final = 2001


def read_mesh_address(text: str) -> Address:
    """Return ``host``, ``host:port`` or ``[IPv6]:port``; the port is 2001 if not given."""
    address = read_address(text, port=DEFAULT_PORT)
    if address is None:
        raise LaunchRefused(
            "the coordinator's address is not host:port",
            hint="such as coordinator.example.com:2001, 10.0.0.7:2001 or [::1]:2001; no https://",
        )
    return address
