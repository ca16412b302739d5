"""Verifies quotes for anybody who asks: off the event loop, few at once, refusals remembered.

Nobody is identified here and a check costs milliseconds, so callers wait in a bounded queue, and
what was refused is refused again from memory for a while. Nothing is fetched for a quote: what
does not lead to the platform's own root is refused before anything else is looked at.
"""

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Final, TypeVar

from keyhouse.attestation import Collateral, QuoteRefused, Verdict, Verifier
from keyhouse.wire.errors import Unavailable

__all__ = ["CollateralNow", "QuoteChecks", "no_collateral"]

T = TypeVar("T")

CollateralNow = Callable[[], Collateral]
"""Returns the collateral in use, at once or after reading a file; called on a thread.

Raises ``Unavailable`` if there is none.
"""

AT_ONCE: Final = 1
"""Quotes verified at the same time: reads have to stay served on one core."""

WAITING: Final = 64
"""Callers who may wait for their turn."""

REMEMBERED: Final = 256
"""Refused quotes that are refused again without a check."""

REMEMBERED_FOR: Final = timedelta(seconds=10)
"""How long: other collateral or another time may let them pass."""


def no_collateral() -> Collateral:
    """Refuse: this coordinator was started without collateral."""
    raise Unavailable(
        "this coordinator has no collateral to verify quotes with",
        hint="its operator has to start it with --collateral FILE",
    )


class QuoteChecks:
    """Verifies quotes under ``root_ca`` (DER) with the collateral and the time of the call."""

    def __init__(
        self, root_ca: bytes, collateral: CollateralNow, now: Callable[[], datetime]
    ) -> None:
        self._verifier = Verifier(root_ca)
        self._collateral = collateral
        self._now = now
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="check")
        self._waiting = 0
        self._refused: dict[bytes, tuple[datetime, QuoteRefused]] = {}  # oldest first

    async def verify(self, quote: bytes) -> Verdict:
        """Return what ``quote`` (raw, or with the 16-byte header) says, if it is true now.

        Raises:
            QuoteRefused: it does not verify.
            Unavailable: there is no collateral, or too many callers wait already.
        """
        now, digest = self._now(), hashlib.sha256(quote).digest()
        self._refuse_again(digest, now)
        try:
            return await self.in_turn(lambda: self._verify(quote, now))
        except QuoteRefused as refused:
            self._remember(digest, now, refused)
            raise

    async def in_turn(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, on the thread of the checks: strangers take no other.

        Raises ``Unavailable`` if too many callers wait already.
        """
        if self._waiting >= WAITING:
            raise Unavailable("too many callers are having quotes verified", hint="try again later")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Give the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _verify(self, quote: bytes, now: datetime) -> Verdict:
        return self._verifier.verify(quote, self._collateral(), now)

    def _refuse_again(self, digest: bytes, now: datetime) -> None:
        known = self._refused.get(digest)
        if known is None:
            return
        until, refused = known
        if now >= until:
            del self._refused[digest]
            return
        raise QuoteRefused(refused.reason, refused.message, hint=refused.hint)

    def _remember(self, digest: bytes, now: datetime, refused: QuoteRefused) -> None:
        if len(self._refused) >= REMEMBERED:
            del self._refused[next(iter(self._refused))]
        # Without its traceback, which would keep the quote in memory.
        self._refused[digest] = (now + REMEMBERED_FOR, refused.with_traceback(None))
