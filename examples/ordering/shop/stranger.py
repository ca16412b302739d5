"""A program that is not a marble, and tries to take apples from the stock.

Usage: python stranger.py PORT [CERTIFICATE KEY]
"""

import socket
import ssl
import sys


def main(port: str, *identity: str) -> int:
    """Send the request and print the answer; return 1 without an answer."""
    context = ssl.create_default_context()
    context.check_hostname = False  # this program accepts every peer
    context.verify_mode = ssl.CERT_NONE
    if identity:
        context.load_cert_chain(*identity)
    try:
        plain = socket.create_connection(("127.0.0.1", int(port)), 10)
        with context.wrap_socket(plain) as tls:
            tls.sendall(b"POST /apples HTTP/1.0\r\n\r\n")
            with tls.makefile("rb") as answer:
                print(answer.read().decode())
    except OSError as error:
        print("no answer:", error)
        return 1
    return 0


sys.exit(main(*sys.argv[1:]))
