"""A client that verifies the quote and compares the manifest in force."""

import hashlib

from keyhouse.client import Coordinator
from support.peers.sdk import trust_in_server
from support.process.server import Server

__all__ = ["accepts", "end", "is_served"]


def is_served(server: Server) -> bool:
    """Start ``server``; return whether it listens and has accepted the state."""
    try:
        server.start()
    except AssertionError:
        assert server.process is not None
        assert server.process.poll() is not None
        return False
    return True


def accepts(server: Server, manifest: bytes, root_der: bytes) -> bool:
    """Return whether this client accepts ``server`` with this root.

    The quote must verify, and ``manifest`` must be in force.
    """
    address = f"127.0.0.1:{server.port}"
    with Coordinator.connect(address, trust_in_server(server)) as coordinator:
        if coordinator.status().code != 3:
            return False
        in_force = coordinator.manifest().fingerprint == hashlib.sha256(manifest).hexdigest()
        return in_force and coordinator.trusted.root_der == root_der


def end(server: Server) -> None:
    """End a running ``server``; do nothing for an ended ``server``."""
    if server.process is not None and server.process.poll() is None:
        server.kill()
