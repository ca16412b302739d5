"""A service without code of Keyhouse: its TLS key, certificate and greeting are in files.

Usage: python3 app.py [PORT]

Listens at port PORT of every address. The default is 8443.
"""

import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

FILES = Path("/tmp/app")  # noqa: S108 memory of the enclave


class Greeting(BaseHTTPRequestHandler):
    """Answers every GET with the greeting."""

    greeting = b""

    def do_GET(self) -> None:
        """Send the greeting."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.greeting)))
        self.end_headers()
        self.wfile.write(self.greeting)


def main(port: int) -> None:
    """Serve until the process ends."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(FILES / "tls.pem", FILES / "tls.key")
    Greeting.greeting = (FILES / "greeting").read_bytes()
    server = HTTPServer(("", port), Greeting)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8443)
