"""The programs of the shop: ``shop.py database|orders|web PORT [HOST:PORT of the peer]``.

The launcher writes the keys and sets the variables, so this program contains no part of Keyhouse.
Each client verifies the exact certificate of its peer, because the operator of the cluster
controls names. Each client sends a password. Client and server receive the same password from the
manifest.
"""

import hmac
import os
import sqlite3
import ssl
import sys
from contextlib import closing
from html import escape
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs

FILE: Final = "orders.db"
ITEMS: Final = ("apples", "pears", "plums")
PAGE: Final = """<!doctype html>
<title>A shop in enclaves</title>
<h1>A shop in enclaves</h1>
<form method="post"><input name="item" value="apples"><button>Order</button></form>
<p>{answer}</p>
<ul>{orders}</ul>
"""
_PATIENCE: Final = 10.0  # seconds
_LARGEST: Final = 4096  # bytes of a request's body


class Handler(BaseHTTPRequestHandler):
    """The common parts of all services: password, body and answer."""

    def is_known(self) -> bool:
        """Return whether the client sent the password of this service; answer 403 if not."""
        shown = self.headers.get("Authorization", "").encode()
        if hmac.compare_digest(shown, os.environ["PASSWORD"].encode()):
            return True
        self.answer(403, "text/plain", "the password is missing\n")
        return False

    def body(self) -> str:
        """Return the body of the request."""
        length = min(int(self.headers.get("Content-Length") or 0), _LARGEST)
        return self.rfile.read(length).decode("utf-8", "replace")

    def answer(self, status: int, kind: str, text: str) -> None:
        """Send an answer."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(handler: type[Handler]) -> None:
    """Serve at the port in the second argument until the process ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("tls.pem", "tls.key")
    server = ThreadingHTTPServer(("", int(sys.argv[2])), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    server.serve_forever()


def call(method: str, name: str, path: str, body: str = "") -> str:
    """Send a request to the service ``name``; return the body of the answer.

    The third argument of the program is the address of the service.
    """
    context = ssl.create_default_context(cadata=os.environ["PEER_CERTIFICATE"])
    # Only the certificate of the peer is trusted, not a certificate authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    host, _, port = sys.argv[3].rpartition(":")
    connection = _Named(host, int(port), name, context)
    try:
        connection.request(method, path, body, {"Authorization": os.environ["PEER_PASSWORD"]})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


class _Named(HTTPSConnection):
    """A connection to ``host`` with a certificate for ``name``."""

    def __init__(self, host: str, port: int, name: str, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=_PATIENCE, context=context)
        self._name = name
        self._tls = context

    def connect(self) -> None:
        """Connect, and verify the certificate for the name."""
        super(HTTPSConnection, self).connect()
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


class Database(Handler):
    """Reads and writes the table of orders."""

    def do_GET(self) -> None:
        """List the orders, one on each line."""
        if self.is_known():
            with closing(sqlite3.connect(FILE)) as database:
                rows = database.execute("SELECT item FROM orders ORDER BY number").fetchall()
            self.answer(200, "text/plain", "".join(f"{item}\n" for (item,) in rows))

    def do_POST(self) -> None:
        """Store the item in the body."""
        if self.is_known():
            with closing(sqlite3.connect(FILE)) as database, database:
                database.execute("INSERT INTO orders (item) VALUES (?)", (self.body(),))
            self.answer(200, "text/plain", "stored\n")


class Orders(Handler):
    """Checks each order before the database stores it."""

    def do_GET(self) -> None:
        """List the orders."""
        if self.is_known():
            self.answer(200, "text/plain", call("GET", "database", "/"))

    def do_POST(self) -> None:
        """Store the item in the body, if the shop sells this item."""
        if self.is_known():
            item = self.body()
            if item in ITEMS:
                self.answer(200, "text/plain", call("POST", "database", "/", item))
            else:
                self.answer(400, "text/plain", f"the shop sells {', '.join(ITEMS)}\n")


class Web(Handler):
    """Answers browsers, without a password."""

    def do_GET(self) -> None:
        """Show the page."""
        self.show("")

    def do_POST(self) -> None:
        """Order the item of the form, and show the page."""
        item = parse_qs(self.body()).get("item", [""])[0]
        self.show(call("POST", "orders", "/", item))

    def show(self, answer: str) -> None:
        """Show the page with the answer to an order."""
        lines = call("GET", "orders", "/").splitlines()
        orders = "".join(f"<li>{escape(line)}</li>" for line in lines)
        self.answer(200, "text/html", PAGE.format(answer=escape(answer), orders=orders))


def main() -> None:
    """Run the service in the first argument."""
    if sys.argv[1] == "database":
        with closing(sqlite3.connect(FILE)) as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, item TEXT)"
            )
    serve({"database": Database, "orders": Orders, "web": Web}[sys.argv[1]])


if __name__ == "__main__":
    main()
