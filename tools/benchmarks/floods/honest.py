"""An honest client that requests the status on one connection until standard input ends.

The arguments are the port and the process ID of the server.

The client writes a line after the first answer, and its figures as JSON at the end. After the end
of the input, the client sends 200 more requests: the server can still work through buffers, and
processes a part of them before each answer. The client ends after 120 seconds at the latest.
"""

import socket
import ssl
import sys
import threading
import time
from typing import Final

import msgspec
from benchmarks.floods.processor_time import processor_ms

__all__ = ["Waits", "ask", "trusting"]

_REQUEST: Final = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n"
_PAUSE: Final = 0.002  # seconds
_MORE: Final = 200  # requests
_LONGEST: Final = 120.0  # seconds, even if the parent process does not close the input


class Waits(msgspec.Struct, frozen=True):
    """Times from request to answer, in milliseconds.

    ``most_work_ms`` is the largest processor time of the server within a wait. Other programs
    prolong the waits, but not this time.
    """

    answers: int
    median_ms: float
    longest_ms: float
    most_work_ms: float


def main() -> None:
    """Request the status repeatedly, and write the figures."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    port, server = int(sys.argv[1]), int(sys.argv[2])
    waits: list[float] = []
    work: list[float] = []
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        trusting().wrap_socket(plain) as stream,
    ):
        ask(stream)
        print("answered", flush=True)
        end, more = time.monotonic() + _LONGEST, _MORE
        while more and time.monotonic() < end:
            more -= ended.is_set()
            before = processor_ms(server)
            waits.append(ask(stream))
            work.append(processor_ms(server) - before)
            time.sleep(_PAUSE)
    waits.sort()
    found = Waits(len(waits), waits[len(waits) // 2] * 1000, waits[-1] * 1000, max(work))
    print(msgspec.json.encode(found).decode(), flush=True)


def trusting() -> ssl.SSLContext:
    """Return a TLS context without verification, for loopback without real secrets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ask(stream: ssl.SSLSocket) -> float:
    """Request the status on ``stream``; return the seconds until the complete answer."""
    begun = time.perf_counter()
    stream.sendall(_REQUEST)
    found = b""
    while b"\r\n\r\n" not in found or not found.endswith(b"}\n"):
        piece = stream.recv(65536)
        if not piece:
            sys.exit("error: the server closed the connection of the honest client")
        found += piece
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
