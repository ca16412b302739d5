"""TLS between the services: each side presents its certificate and verifies the peer's certificate.

This code is independent of Keyhouse. The launcher has written the files and set the variables of
the manifest. Any Python program can use these files and variables in the same way.
"""

import os
import socket
import ssl
import sys
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from marble_type import marble_type

HOST: Final = "127.0.0.1"
_PATIENCE: Final = 10.0  # seconds


def _root_of_marbles() -> str:
    """Return the certificate (PEM) that signs the certificates of marbles and of secrets."""
    return os.environ["MARBLE_PREDEFINED_ROOT_CA"]


def connect(port: int, name: str, kind: str) -> HTTPSConnection:
    """Return a connection to the marble at ``port``, which must have the type ``kind``.

    The certificate of the marble must contain ``name``. (With a name service, ``name`` is the name
    of the host.) Raises ``ssl.SSLError`` and ``OSError``, and ``PermissionError`` for a marble of a
    different type.
    """
    context = ssl.create_default_context(cadata=_root_of_marbles())
    context.load_cert_chain("tls.pem", "tls.key")
    connection = HTTPSConnection(name, port, timeout=_PATIENCE)
    plain = socket.create_connection((HOST, port), _PATIENCE)
    connection.sock = tls = context.wrap_socket(plain, server_hostname=name)
    if _peer(tls) != kind:
        connection.close()
        raise PermissionError(f"the server is not of the type {kind}")
    return connection


def serve(port: int, handler: "type[TextHandler]", *, marbles_only: bool) -> None:
    """Serve until the process ends. ``marbles_only``: clients need a marble's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("tls.pem", "tls.key")
    if marbles_only:
        context.load_verify_locations(cadata=_root_of_marbles())
        context.verify_mode = ssl.CERT_REQUIRED
    with Server((HOST, port), handler) as server:
        server.context = context
        print(f"serving at {HOST}:{port}", flush=True)
        server.serve_forever()


class Server(ThreadingHTTPServer):
    """HTTPS. Each handshake runs on the connection's thread, so a slow client delays nobody."""

    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        request.settimeout(_PATIENCE)
        with self.context.wrap_socket(request, server_side=True) as tls:
            handler: Any = self.RequestHandlerClass
            handler(tls, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report the cause of a failed connection in one line."""
        del request, client_address
        print("turned away:", sys.exc_info()[1], flush=True)


class TextHandler(BaseHTTPRequestHandler):
    """Answers a request with a line of text."""

    connection: ssl.SSLSocket

    def caller(self) -> str:
        """Return the marble type of the client, or "" without a certificate."""
        return _peer(self.connection)

    def answer(self, status: int, text: str) -> None:
        """Send the answer."""
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 as inherited
        """Log the request. A request contains no secret."""
        print(format % values, flush=True)


def _peer(tls: ssl.SSLSocket) -> str:
    certificate = tls.getpeercert(binary_form=True)
    return marble_type(certificate, _root_of_marbles()) if certificate else ""
