"""A customer: not a marble. Accepts only the front end of this deployment.

Usage: python customer.py PORT buy GOODS
       python customer.py PORT check GOODS RECEIPT
"""

import socket
import ssl
import sys
from http import HTTPStatus
from http.client import HTTPSConnection

_NAME = "orders.example.com"


def main(port: str, action: str, *path: str) -> int:
    """Send the request and print the answer; return 1 if the answer is a refusal."""
    # The root of the verified coordinator: only an admitted workload has a certificate for this
    # name below this root.
    context = ssl.create_default_context(cafile="root.pem")
    connection = HTTPSConnection(_NAME, int(port))
    plain = socket.create_connection(("127.0.0.1", int(port)), 10)
    connection.sock = context.wrap_socket(plain, server_hostname=_NAME)
    connection.request("POST" if action == "buy" else "GET", "/" + "/".join(path))
    response = connection.getresponse()
    print(response.read().decode().strip())
    connection.close()
    return int(response.status != HTTPStatus.OK)


sys.exit(main(*sys.argv[1:]))
