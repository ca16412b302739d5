"""TLS that accepts one exact certificate of the peer, before any byte of a request is sent.

A check of chain and host name is not enough. Workloads have certificates under the coordinator's
root, perhaps with the coordinator's name. So the peer must prove in the handshake the ownership of
the very root that a verified quote binds. The check is part of the handshake. No byte of a request
can be sent earlier.
"""

import hmac
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

from keyhouse.base.connect_errors import plain_http
from keyhouse.client.errors import TrustError

PeerCheck = Callable[[bytes], None]

_FOREVER: Final = 1e9  # seconds; sockets refuse infinity
_SOONEST: Final = 0.001  # seconds; 0 would mean a non-blocking socket
_PEEKED: Final = 16  # bytes; enough for the start of an answer in plain HTTP


class _Socket(ssl.SSLSocket):
    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive at most ``buflen`` bytes before the deadline of the context.

        So the deadline cuts off a peer that sends without end.
        """
        context: Any = self.context
        if time.monotonic() > context.deadline:
            raise TimeoutError("the server did not answer in time")
        return super().recv(buflen, flags)

    def settimeout(self, value: float | None) -> None:
        """Limit each wait of the socket to ``value`` seconds, never beyond the deadline.

        None: only the deadline limits the wait.
        """
        context: Any = self.context
        left = max(context.deadline - time.monotonic(), _SOONEST)
        super().settimeout(left if value is None else min(value, left))

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - as overridden
        try:
            super().do_handshake(block)
        except ssl.SSLError as error:
            raise plain_http(self._unread(), head_is_read=True) or error from None
        try:
            _check(self.context, self.getpeercert(binary_form=True))
        except BaseException:
            self.close()
            raise

    def _unread(self) -> bytes:
        """Return the bytes that have arrived and that TLS has not read. Do not wait for more."""
        try:
            super().settimeout(0)  # with a timeout, Python waits even for a non-blocking call
            return socket.socket.recv(self, _PEEKED)
        except OSError:
            return b""


class _Object(ssl.SSLObject):
    incoming: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError as error:
            raise plain_http(self.incoming.read(_PEEKED), head_is_read=True) or error from None
        _check(self.context, self.getpeercert(binary_form=True))


class PeerContext(ssl.SSLContext):
    """A TLS context: ``check`` gets the peer's leaf (DER) at the end of each handshake.

    ``deadline`` is a time on the clock ``time.monotonic()``. The timeouts of HTTP restart with each
    received piece. So a peer that sends single bytes, or data without end, could hold a blocking
    socket forever. The deadline prevents this.
    """

    sslsocket_class = _Socket
    sslobject_class = _Object
    check: PeerCheck
    deadline: float = _FOREVER

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any
    ) -> ssl.SSLObject:
        """Return a TLS connection over the buffers ``incoming`` and ``outgoing``."""
        tls = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(tls, _Object)  # noqa: S101 the class above
        tls.incoming = incoming
        return tls


def _check(context: Any, leaf: bytes | None) -> None:
    if leaf is None:
        raise TrustError("the peer presented no certificate")
    context.check(leaf)


def _context(check: PeerCheck) -> PeerContext:
    # ``create_default_context`` would use SSLKEYLOGFILE and the system's trust store.
    context = PeerContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the whole certificate is compared, not its name
    context.check = check
    return context


def pinned_context(root_der: bytes) -> PeerContext:
    """Return a context whose handshakes end in ``TrustError`` unless the leaf is ``root_der``."""

    def check(leaf: bytes) -> None:
        if not hmac.compare_digest(leaf, root_der):
            raise TrustError("the peer's certificate is not the verified root")

    context = _context(check)
    # This is the second line of defence: OpenSSL refuses another peer even without the check above.
    context.load_verify_locations(cadata=root_der)
    return context


def watching_context(seen: PeerCheck) -> PeerContext:
    """Return a context that accepts any peer, unverified, and calls ``seen`` with its leaf.

    Use the context only to request a coordinator's quote, which is public.
    """
    context = _context(seen)
    context.verify_mode = ssl.CERT_NONE
    return context
