"""Free ports of 127.0.0.1 for servers."""

import itertools
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Final

__all__ = ["free_port"]

_LOWEST: Final = 12_000
_TRIED: Final = 1000
_OF_CLIENTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _ports() -> Iterator[int]:
    """Yield ports below the kernel's range for outgoing connections, in random order.

    Yields nothing if the range is unknown, or begins at or below ``_LOWEST``.
    """
    try:
        first = int(_OF_CLIENTS.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return
    own = range(_LOWEST, first)
    yield from itertools.cycle(SystemRandom().sample(own, len(own)))


_PORTS: Final = _ports()


def free_port() -> int:
    """Return a port of 127.0.0.1 without a listener, a different port each time.

    Prefers ports outside the kernel's range for outgoing connections. A client could occupy a
    port of this range before the server listens there.
    """
    for port in itertools.islice(_PORTS, _TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # same option as servers
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
