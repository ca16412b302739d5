"""A bare TLS and HTTP server with a constant answer, for comparison with a coordinator.

The bare server uses Keyhouse's own listener. So the difference to a coordinator is only the
identification of the client, the decision and the encoding. Run from the root of the repository::

    PYTHONPATH=tools .venv/bin/python -m benchmarks.bare

The server listens on a free port of 127.0.0.1 and prints one line ``{"port":40123}``. SIGTERM,
SIGINT or the end of standard input ends the server.
"""

import asyncio
import datetime as dt
import gc
import os
import signal
import sys
from typing import Final

import msgspec
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from keyhouse.base.secret import Secret
from keyhouse.server.http.exchange import Admission, Answer, Head, ProtocolRefusal
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.tls import TlsContext

_GRACE_SECONDS: Final = 1.0


class Constant:
    """An application that answers every request with the same bytes, before the body."""

    _answer = Answer(200, b'{"status":"success","data":{"status":3,"message":"constant"}}\n')

    def admit(self, _head: Head) -> Answer | Admission:
        """Return the constant answer."""
        return self._answer

    def refuse(self, refusal: ProtocolRefusal) -> Answer:
        """Return an empty answer with the status of the refusal."""
        return Answer(refusal.status, b"{}\n")


def throwaway_context() -> TlsContext:
    """Return a TLS context with a new self-signed P-256 certificate, as a coordinator has."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bare")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return TlsContext(Secret(private), [certificate.public_bytes(Encoding.DER)])


async def serve() -> None:
    """Serve until a signal or the end of standard input."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_reader(sys.stdin.fileno(), _stop_at_end, ended)
    listener = Listener(Constant(), throwaway_context())
    await listener.start("127.0.0.1", 0)
    sys.stdout.write(msgspec.json.encode({"port": listener.port}).decode() + "\n")
    sys.stdout.flush()
    gc.freeze()
    await ended.wait()
    await listener.stop(_GRACE_SECONDS)


def _stop_at_end(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


if __name__ == "__main__":
    uvloop.run(serve())
