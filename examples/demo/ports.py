"""Ports of 127.0.0.1 for servers that are about to start."""

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
    """Yield ports that the kernel gives to no outgoing connection; none if it has them all."""
    try:
        first = int(_OF_CLIENTS.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return
    own = range(_LOWEST, first)
    yield from itertools.cycle(SystemRandom().sample(own, len(own)))


_PORTS: Final = _ports()


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens now, another one each time.

    One that the kernel gives to clients may be taken by any of them before the server listens on
    it, so that is what is returned only where there is no other.
    """
    for port in itertools.islice(_PORTS, _TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
