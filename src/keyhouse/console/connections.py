"""Accept only connections of the console's user, a limited number, each with a deadline.

Every user of the machine can connect to a port of loopback. A browser sends a cookie of
``127.0.0.1`` to the servers on all ports, so a server of a different user could read the cookie. So
the cookie alone is not enough: the console asks the kernel for the owner of each connection, before
it reads a byte.

Without these limits, 1,200 open connections of a different user used up the file descriptors.
asyncio then printed a traceback for each failed accept: 53,131 in 10 s. The console counts refused
connections, and the terminal gets a single line for all of them.
"""

import asyncio
import errno
import logging
import os
import socket
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from keyhouse.console.peer import Address, Peers

MOST: Final = 128
"""Open connections of the user. A browser opens at most 6 for all of its tabs."""

HEADER_SECONDS: Final = 10.0
"""Seconds until the header of a request must be complete."""

_CONNECTED: Final = 1  # TCP_ESTABLISHED, linux/tcp_states.h
_PER_TURN: Final = 64  # connections accepted before other work of the console, chosen
_QUIET: Final = 2.0  # seconds without a refusal after which the line is printed, chosen
_LONGEST: Final = 60.0  # seconds until the line is printed during a flood, chosen: a line a minute
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class RefusalPrinter:
    """Counts refusals, and prints a line for many of them.

    ``clock`` returns monotonic seconds. ``print_line`` prints a line.
    """

    def __init__(self, clock: Callable[[], float], print_line: Callable[[str], None]) -> None:
        self._clock = clock
        self._print_line = print_line
        self._counts: Counter[str] = Counter()
        self._first = self._newest = 0.0

    def add(self, reason: str) -> None:
        """Count a refusal. ``reason`` is a fixed text of the console, without the client's data."""
        self._newest = self._clock()
        if not self._counts:
            self._first = self._newest
        self._counts[reason] += 1

    def report(self, *, at_once: bool = False) -> None:
        """Print the number of refusals for each reason in a line; then count from 0 again.

        While refusals continue, nothing is printed for up to a minute. With ``at_once``, the line
        is printed in any case.
        """
        now = self._clock()
        has_ended = now - self._newest >= _QUIET or now - self._first >= _LONGEST
        if not self._counts or not (has_ended or at_once):
            return
        parts = [f"{count:,} {reason}" for reason, count in sorted(self._counts.items())]
        self._counts.clear()
        self._print_line(f"refused: {', '.join(parts)}")


class OwnConnections(socket.socket):
    """A listening socket that accepts only connections of the user of this process.

    The socket resets a connection of a different user, and neither reads nor writes a byte.
    """

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self.refusals: RefusalPrinter | None = None
        self._peers = Peers()
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._turn = 0
        # A descriptor in reserve: without one, a refused connection would stay in the queue.
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self) -> tuple[socket.socket, Address]:
        """Return the next connection of this user, and its address.

        Raises ``BlockingIOError`` after a limited number of connections. So the event loop can do
        its remaining work, and then calls again.
        """
        while self._turn < _PER_TURN:
            self._turn += 1
            try:
                connection, address = super().accept()
            except OSError as error:
                self._turn = 0
                if error.errno not in _EXHAUSTED:
                    raise
                self._drop_one()
                break
            owner = self._peers.owner(address, self.getsockname())
            if _has_ended(connection):
                connection.close()  # for example, a browser left the page
            elif owner != os.geteuid():
                self._refuse(connection, "connections of other users")
            elif sum(each.fileno() >= 0 for each in self._open) >= MOST:
                self._refuse(connection, f"connections beyond {MOST}")
            else:
                self._open.add(connection)
                return connection, address
        self._turn = 0
        # The queue may hold more. The event loop calls again after its other work.
        raise BlockingIOError(errno.EAGAIN, "later")

    def close(self) -> None:
        """Close the socket, the connection to the kernel, and the reserved descriptor."""
        super().close()
        self._peers.close()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _refuse(self, connection: socket.socket, reason: str) -> None:
        # With SO_LINGER of 0 s, close sends a reset and leaves no state in the kernel.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        if self.refusals is not None:
            self.refusals.add(reason)

    def _drop_one(self) -> None:
        """Refuse a waiting connection if all file descriptors are in use.

        The accept needs a descriptor, so the method frees the reserved descriptor first.
        """
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        try:
            connection, _ = super().accept()
            self._refuse(connection, "connections without a free file descriptor of the console")
        except OSError:
            pass
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._reserve = -1


def _has_ended(connection: socket.socket) -> bool:
    """Return whether the client has closed ``connection``: then the kernel states no owner."""
    # The first byte of struct tcp_info is the state (linux/tcp.h).
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _CONNECTED


class Protocol(H11Protocol):
    """HTTP/1.1 with a deadline of 10 seconds for the header of each request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for the header of the first request on ``transport``."""
        super().connection_made(transport)
        self._check_deadline()

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; start or cancel the deadline.

        A deadline runs from the first byte of a request until its header is complete.
        """
        super().data_received(data)
        self._check_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline for the header: the connection has ended, with the error ``exc``."""
        self._end_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request with the text ``msg``.

        If an answer has begun already, close the connection instead.
        """
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.close()

    def _check_deadline(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._end_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class CountedWarnings(logging.Filter):
    """Counts warnings in uvicorn's log in place of printing them. Errors are still printed.

    Such warnings are about invalid requests. ``refusals`` counts them.
    """

    def __init__(self, refusals: RefusalPrinter) -> None:
        super().__init__()
        self._refusals = refusals

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to print ``record`` of uvicorn's log; count the record if not."""
        if record.levelno >= logging.ERROR:
            return True
        self._refusals.add("invalid requests")
        return False
