"""Serve admission reviews over HTTPS.

Every pod of the cluster can connect, and nobody proves an identity. So a connection has a single
request and ten seconds. The number of served connections is limited, in total and for each client
address. Further connections wait, so an API server can create many pods at once. An attacker at a
single address cannot use up the total limit. Reviews are rare, so a new connection for each
review is cheap.
"""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.cli.kube.webhook.review import MUTATE, VALIDATE, Reviewer, ReviewUnreadableError

READY: Final = "/ready"
_DEADLINE: Final = 10.0
"""Seconds for a connection. The API server waits as long (``timeoutSeconds`` in the chart)."""

_WAITING: Final = (512, 256)
"""Connections with and without a place: of all addresses, and of one address. A thread each."""

_PLACES: Final = (24, 8)
"""Connections whose request is read: of all addresses, and of one address. 4 MiB each at most."""

_REVIEWS: Final = 2
"""Reviews at the same time. A decoded review needs up to twenty times its size."""

_LARGEST: Final = 4 << 20
"""Bytes of a review. etcd accepts objects of 1.5 MiB, and a review can have the old object, too."""


class _Limit:
    """Counts connections up to ``most``: a limit for all client addresses, and for each address."""

    def __init__(self, most: tuple[int, int]) -> None:
        self._most, self._of_one = most
        self._counts = Counter[str]()
        self._changed = threading.Condition()

    def acquire(self, host: str, patience: float = 0) -> bool:
        """Count a connection of the client address ``host``; return False beyond a limit.

        If a limit is reached, wait up to ``patience`` seconds for the end of a counted connection.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(host), patience):
                return False
            self._counts[host] += 1
            return True

    def _has_room(self, host: str) -> bool:
        return self._counts.total() < self._most and self._counts[host] < self._of_one

    def release(self, host: str) -> None:
        """Remove a connection of the client address ``host`` from the count."""
        with self._changed:
            self._counts[host] -= 1
            if not self._counts[host]:
                del self._counts[host]
            self._changed.notify_all()


class AddressUnusableError(RefusedError):
    """The webhook cannot listen on its address."""

    code = "address-unusable"
    next_step = "pass --listen with a free port and an address of this machine"


class WebhookListener(ThreadingHTTPServer):
    """Listens on ``address`` (host and port; host "": all addresses) for admission reviews.

    ``context`` returns the TLS context, or None before the first certificate. ``reviewer`` answers
    the reviews. Raises ``AddressUnusableError``.
    """

    daemon_threads = False  # the end of the process waits for running reviews
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        context: Callable[[], ssl.SSLContext | None],
        reviewer: Reviewer,
    ) -> None:
        self._context = context
        self.reviewer: Final = reviewer
        self.turns: Final = threading.BoundedSemaphore(_REVIEWS)
        self._waiting, self._places = _Limit(_WAITING), _Limit(_PLACES)
        if not address[0]:  # all addresses, of both versions where the machine has both
            address = ("::" if socket.has_dualstack_ipv6() else "0.0.0.0", address[1])  # noqa: S104
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            raise AddressUnusableError(
                f"the webhook cannot listen on {address[0]}:{address[1]}: {os_reason(error)}"
            ) from None

    def server_bind(self) -> None:
        """Bind the address. A socket for IPv6 also serves IPv4."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether the limits permit a further connection of ``client_address``.

        ``request``, the connection, has no effect.
        """
        del request
        return self._waiting.acquire(client_address[0])

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the connection ``request`` of ``client_address`` in its thread.

        Then remove the connection from the count.
        """
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._waiting.release(client_address[0])

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Wait for the limit of served connections, then do the TLS handshake, and answer.

        ``request`` is the connection of ``client_address``. The wait lasts ten seconds at most.
        """
        host, context = client_address[0], self._context()
        if context is None or not self._places.acquire(host, _DEADLINE):
            return
        try:
            self._serve(request, client_address, context)
        finally:
            self._places.release(host)

    def _serve(self, request: Any, client_address: Any, context: ssl.SSLContext) -> None:
        request.settimeout(_DEADLINE)
        with (
            _ended_after(request),
            suppress(OSError),
            context.wrap_socket(request, server_side=True) as secured,
        ):
            _Handler(secured, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the failure of a connection: everybody can cause such failures.

        ``request`` is the connection of ``client_address``.
        """


@contextmanager
def _ended_after(connection: socket.socket) -> Iterator[None]:
    """End ``connection`` ten seconds after the begin of the block, even if its peer sends bytes."""
    # The handshake detaches the socket object, so the timer needs its own object.
    twin = connection.dup()

    def end() -> None:
        with suppress(OSError):
            twin.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_DEADLINE, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        twin.close()


class _Handler(BaseHTTPRequestHandler):
    """Answers the request of a connection. ``http.server`` limits the head of the request."""

    protocol_version = "HTTP/1.0"  # one request for each connection
    server_version = "keyhouse"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer the readiness probe."""
        if self.path == READY:
            self._send(HTTPStatus.OK, b"ready\n", "text/plain")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Answer an admission review."""
        path = self.path.partition("?")[0]  # the API server adds its timeout
        length = self.headers.get("Content-Length", "")
        if path not in {MUTATE, VALIDATE}:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif not (length.isascii() and length.isdecimal()):
            self.send_error(HTTPStatus.LENGTH_REQUIRED)
        elif int(length) > _LARGEST:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._review(path, self.rfile.read(int(length)))

    def _review(self, path: str, body: bytes) -> None:
        server = cast("WebhookListener", self.server)
        try:
            with server.turns:
                answer = server.reviewer.answer(path, body)
        except ReviewUnreadableError as error:
            self.send_error(HTTPStatus.BAD_REQUEST, explain=str(error))
        else:
            self._send(HTTPStatus.OK, answer, "application/json")

    def _send(self, status: HTTPStatus, body: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 a name of http.server
        """Log nothing: the audit log of the API server has each review.

        ``format`` and ``args``, the text of ``http.server``, have no effect.
        """
