"""The coordinator's own evidence: its certificates, and quotes over its root certificate."""

from collections.abc import Callable
from typing import Final

import msgspec

from keyhouse.attestation import (
    Platform,
    Tee,
    add_header,
    head_report_data,
    quote_binding,
    read_form,
    report_data,
)
from keyhouse.attestation.quote.binding import line_report_data
from keyhouse.authority import CoordinatorKeys
from keyhouse.base.errors import BrokenError
from keyhouse.base.pem import certificate_pem
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, TooManyRequestsError

NONCE_BYTES = 1024
"""The longest nonce, decoded."""

AT_ONCE = 2
"""Quotes made at the same time: the platform is one machine."""

WAITING = 12_000
"""Requests that may wait for a quote; anyone may ask for one, so they are bounded.

As many as there can be connections, each of which has its turn: a flood locks no client out.
"""


class Evidence(msgspec.Struct, frozen=True):
    """What lets a client trust the coordinator."""

    certificates: str  # PEM: intermediate, then root
    quote: bytes  # with its header, if it is of an enclave


class Quotes:
    """Makes quotes, off the event loop and never too many at once.

    ``counts``: requests for a fresh quote by what became of them. A client that leaves is in none.
    """

    def __init__(self, platform: Platform, keys: CoordinatorKeys) -> None:
        self._platform = platform
        self._root = keys.root_cert
        places = ConcurrencyLimit(WAITING, "too many callers are waiting for a quote")
        self._executor = BoundedExecutor("quote", places, AT_ONCE)
        self.counts: Final = {"made": 0, "refused": 0, "failed": 0}
        self._without_nonce = self._quote(report_data(quote_binding(self._root)))

    def without_nonce(self, keys: CoordinatorKeys) -> Evidence:
        """Return the quote that was made at the start, with the certificates of now."""
        if keys.root_cert != self._root:
            raise BrokenError("the quotes are made for another root certificate")
        return _evidence(keys, self._without_nonce)

    async def fresh(self, keys: CoordinatorKeys, nonce: bytes) -> Evidence:
        """Return evidence over ``nonce``: made for this call alone.

        Raises:
            TooManyRequestsError: too many callers wait for a quote already.
        """
        root = keys.root_cert
        return _evidence(keys, await self._made(report_data(quote_binding(root, nonce))))

    async def of_head(self, root_der: bytes, nonce: bytes, text: bytes) -> bytes:
        """Return a quote over the ``text`` of a checkpoint and ``nonce``: made for this call alone.

        It is made in turn with the others. Raises as ``fresh``.
        """
        return await self._made(head_report_data(root_der, nonce, text))

    async def of_line(self, root_der: bytes, nonce: bytes, last: bytes, text: bytes) -> bytes:
        """Return a quote over the line that ends with the entry of the hash ``last``.

        ``text``: of the checkpoint beside it. It is made in turn with the others. Raises as
        ``fresh``.
        """
        return await self._made(line_report_data(root_der, nonce, last, text))

    async def _made(self, bound: bytes) -> bytes:
        try:
            quote = await self._executor.run(lambda: self._quote(bound))
        except TooManyRequestsError:
            self.counts["refused"] += 1
            raise
        except Exception:
            self.counts["failed"] += 1
            raise
        self.counts["made"] += 1
        return quote

    def successor(self, keys: CoordinatorKeys) -> Callable[[], None]:
        """Make the quote over another root; return what begins to serve it."""
        root = keys.root_cert
        quote = self._quote(report_data(quote_binding(root)))

        def serve() -> None:
            self._root, self._without_nonce = root, quote

        return serve

    def close(self) -> None:
        """Give the threads back."""
        self._executor.close()

    def _quote(self, bound: bytes) -> bytes:
        raw = self._platform.quote(bound)
        return add_header(raw) if read_form(raw).tee is Tee.SGX else raw


def _evidence(keys: CoordinatorKeys, quote: bytes) -> Evidence:
    return Evidence(certificate_pem(keys.intermediate_cert, keys.root_cert), quote)
