"""Where a coordinator's workload API listens."""

from keyhouse.launcher.errors import LaunchRefused
from keyhouse.wire.address import WORKLOAD_API_PORT, Address, read_address

__all__ = ["read_mesh_address"]


def read_mesh_address(text: str) -> Address:
    """Return ``host``, ``host:port`` or ``[IPv6]:port``; 2001 if no port. ``LaunchRefused``."""
    return read_address(text, port=WORKLOAD_API_PORT, refused=LaunchRefused)
