"""Opens the sockets of listeners.

Binding and listening are separate steps, so a parent can bind an address for its children. Until a
child listens, the system refuses connections, and no connection waits.
"""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from keyhouse.base.errors import UnavailableError

_BACKLOG: Final = 4096  # the kernel limits it to net.core.somaxconn
_UNUSABLE: Final = {
    errno.EADDRINUSE: (
        "another process uses the port",
        "stop the other process, or pass another --client-addr, --mesh-addr or --metrics-addr",
    ),
    errno.EADDRNOTAVAIL: (
        "this machine has no such address",
        "choose an address of this machine",
    ),
    errno.EACCES: ("this user has no permission for the port", "choose a port from 1024 on"),
}
_NO_ADDRESS: Final = (
    "the host is not an address of this machine",
    "write an IP address of this machine",
)


async def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket at ``host`` (empty: all addresses) and ``port`` (0: a free port).

    The socket does not listen yet, and does not block. Raises ``UnavailableError`` if the address
    is not available.
    """
    with _explained(host, port):
        family, address = await _address(host, port)
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, bool(host))
            bound.bind(address)
            bound.setblocking(False)  # noqa: FBT003 - the standard library's way
        except BaseException:
            bound.close()
            raise
        return bound


def listen(bound: socket.socket) -> None:
    """Let ``bound`` accept connections. Raises ``UnavailableError`` if the address is in use."""
    with _explained(*bound.getsockname()[:2]):
        try:
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise


async def _address(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if not host:
        both = socket.has_dualstack_ipv6()
        return socket.AF_INET6 if both else socket.AF_INET, ("", port)
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


@contextmanager
def _explained(host: str, port: int) -> Iterator[None]:
    try:
        yield
    # UnicodeError: a name that no host can have.
    except (OSError, UnicodeError) as error:
        problem, hint = _UNUSABLE.get(getattr(error, "errno", None) or 0, _NO_ADDRESS)
        raise UnavailableError(
            f"cannot listen on {host or 'all addresses'} port {port}: {problem}", hint=hint
        ) from None
