"""The coordinator's own evidence: its certificates, and quotes over its root certificate."""

from collections.abc import Callable
from typing import Final

import msgspec

from keyhouse.attestation import Platform, head_report_data, quote_binding, report_data
from keyhouse.attestation.kinds.table import in_transport
from keyhouse.attestation.quote.binding import line_report_data
from keyhouse.authority import CoordinatorKeys
from keyhouse.base.errors import BrokenError
from keyhouse.base.pem import certificate_pem
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, TooManyRequestsError

NONCE_BYTES = 1024
"""Largest nonce in bytes, after decoding."""

AT_ONCE = 2
"""Quotes that are created at the same time: the platform is a single machine."""

WAITING = 12_000
"""Largest number of requests that wait for a quote. Everybody may request a quote.

The number equals the largest number of connections. Clients take turns, so a flood excludes nobody.
"""


class QuotedCertificates(msgspec.Struct, frozen=True):
    """The certificates and the quote that a client verifies to trust the coordinator."""

    # PEM: intermediate, then root.
    certificates: str
    # With its header, if the quote comes from an enclave.
    quote: bytes


class Quotes:
    """Creates quotes of ``platform`` in threads, at most ``AT_ONCE`` at the same time.

    ``keys``: the quotes are over the root certificate in these keys. ``counts``: requests for a
    fresh quote by outcome, except requests of disconnected clients.
    """

    def __init__(self, platform: Platform, keys: CoordinatorKeys) -> None:
        self._platform = platform
        self._root = keys.root_cert
        places = ConcurrencyLimit(WAITING, "too many callers are waiting for a quote")
        self._executor = BoundedExecutor("quote", places, AT_ONCE)
        self.counts: Final = {"made": 0, "refused": 0, "failed": 0}
        self._without_nonce = self._quote(report_data(quote_binding(self._root)))

    def without_nonce(self, keys: CoordinatorKeys) -> QuotedCertificates:
        """Return the quote from the start of this process, with the certificates of ``keys``.

        Raises ``BrokenError`` for the keys of another root certificate.
        """
        if keys.root_cert != self._root:
            raise BrokenError("the quotes of this process are for another root certificate")
        return _evidence(keys, self._without_nonce)

    async def fresh(self, keys: CoordinatorKeys, nonce: bytes) -> QuotedCertificates:
        """Return the certificates of ``keys``, and a new quote over the root and ``nonce``.

        Raises:
            TooManyRequestsError: too many callers wait for a quote.
        """
        root = keys.root_cert
        return _evidence(keys, await self._made(report_data(quote_binding(root, nonce))))

    async def of_head(self, root_der: bytes, nonce: bytes, text: bytes) -> bytes:
        """Return a new quote over the root, ``nonce``, and the ``text`` of a checkpoint.

        ``root_der``: the root certificate. Raises the errors of ``fresh``.
        """
        return await self._made(head_report_data(root_der, nonce, text))

    async def of_line(self, root_der: bytes, nonce: bytes, last: bytes, text: bytes) -> bytes:
        """Return a new quote over the line of the root, ``nonce``, and a checkpoint (``text``).

        ``root_der``: the root certificate. ``last``: the SHA-256 of the line's last entry.
        ``text``: the checkpoint in the same answer; empty without a log. Raises the errors of
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
        """Create the quote over the recovered root in ``keys``, and return a function.

        After a call of this function, ``without_nonce`` returns the new quote.
        """
        root = keys.root_cert
        quote = self._quote(report_data(quote_binding(root)))

        def serve() -> None:
            self._root, self._without_nonce = root, quote

        return serve

    def close(self) -> None:
        """End the threads that make quotes."""
        self._executor.close()

    def _quote(self, bound: bytes) -> bytes:
        raw = self._platform.quote(bound)
        return in_transport(raw)


def _evidence(keys: CoordinatorKeys, quote: bytes) -> QuotedCertificates:
    return QuotedCertificates(certificate_pem(keys.intermediate_cert, keys.root_cert), quote)
