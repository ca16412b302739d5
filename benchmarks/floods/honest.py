"""An honest client: requests the status on one connection until its input ends, or for too long.

It writes a line once it was answered, and at its end its figures as JSON. After the end of its
input it requests the status some more times: the server may still work through buffers, a part of
them for each of these answers.
"""

import socket
import ssl
import sys
import threading
import time
from typing import Final

import msgspec

__all__ = ["Waits"]

_REQUEST: Final = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n"
_PAUSE: Final = 0.002  # seconds
_MORE: Final = 200  # requests
_LONGEST: Final = 120.0  # seconds, whatever becomes of the one who started this


class Waits(msgspec.Struct, frozen=True):
    """Milliseconds that answers took."""

    answers: int
    median_ms: float
    longest_ms: float


def main() -> None:
    """Ask, and write what it took."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback, and nothing of worth is sent
    with (
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) as plain,
        context.wrap_socket(plain) as stream,
    ):
        waits = [_ask(stream)]
        print("answered", flush=True)
        waits.clear()
        end, more = time.monotonic() + _LONGEST, _MORE
        while more and time.monotonic() < end:
            more -= ended.is_set()
            waits.append(_ask(stream))
            time.sleep(_PAUSE)
    waits.sort()
    found = Waits(len(waits), waits[len(waits) // 2] * 1000, waits[-1] * 1000)
    print(msgspec.json.encode(found).decode(), flush=True)


def _ask(stream: ssl.SSLSocket) -> float:
    begun = time.perf_counter()
    stream.sendall(_REQUEST)
    found = b""
    while b"\r\n\r\n" not in found or not found.endswith(b"}\n"):
        piece = stream.recv(65536)
        if not piece:
            sys.exit("error: an honest client was cut off")
        found += piece
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
