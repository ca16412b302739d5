"""Verifies quotes for anonymous clients: off the event loop, few at once, refusals remembered.

A check costs milliseconds and callers are not identified, so they wait in a bounded queue, and
what was refused is refused again from memory for a while. Nothing is fetched for a quote whose PCK
chain does not lead to the platform's own root. Collateral that is older than what was seen before,
in this process or in another one of the same journal, is not used, whatever its own dates say.
"""

import hashlib
import time
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from keyhouse.attestation import (
    AmdCollateral,
    Collateral,
    Mark,
    QuoteRefusedError,
    Verdict,
    Verifier,
    newer_marks,
    platform_kind,
    require_as_new,
)
from keyhouse.attestation.kinds.table import KINDS, kind_of
from keyhouse.attestation.sources.chosen import (
    AmdChecks,
    CollateralHealth,
    CollateralNow,
    CollateralPerPlatform,
)
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, FairQueue
from keyhouse.server.services.collateral_memory import CollateralMemory, ProcessMarks

T = TypeVar("T")


class _Healths(msgspec.Struct, frozen=True):
    """Several as one."""

    each: tuple[CollateralHealth, ...]

    def expires(self) -> datetime | None:
        ends = (health.expires() for health in self.each)
        return min((end for end in ends if end is not None), default=None)

    def fetches(self) -> Mapping[str, int]:
        return {kind: count for health in self.each for kind, count in health.fetches().items()}


AT_ONCE: Final = 1
"""Quotes verified at the same time: dcap-qvl holds the interpreter's lock, so more gain nothing."""

FETCHES_AT_ONCE: Final = 4
"""Callers that wait for the same collateral at a time; it then serves all of their kind."""

WAITING: Final = 16_384
"""Callers who may wait for a check, and as many for collateral; anybody may be one.

More than there can be connections and calls: clients have their turns in rounds, so a flood locks
none of them out. The memory of their requests is bounded where it comes in.
"""

REMEMBERED: Final = 256
"""Refused quotes that are refused again without a check."""

REMEMBERED_FOR: Final = timedelta(seconds=10)
"""How long: other collateral or another time may let them pass."""

_TOO_MANY: Final = "too many callers are having quotes verified"


class QuoteChecks:
    """Verifies quotes under ``root_ca`` (DER) with the collateral and the time of the call.

    ``collateral``: one bundle for all, or what has one for each kind of platform. ``memory``: how
    new it was so far; by default of this process alone. ``pace``: seconds that never stand still;
    what
    ``now`` gives may stand still, while the host's clock is behind the journal. ``amd``: the roots
    and collateral of AMD.
    """

    def __init__(
        self,
        root_ca: bytes,
        collateral: CollateralNow | CollateralPerPlatform,
        now: Callable[[], datetime],
        memory: CollateralMemory | None = None,
        pace: Callable[[], float] = time.monotonic,
        amd: AmdChecks | None = None,
    ) -> None:
        self._amd = amd or AmdChecks()
        self._verifier = Verifier(root_ca, self._amd.roots)
        self._collateral = collateral
        self._now = now
        self._memory = memory or ProcessMarks()
        self._pace = pace
        self._executor = BoundedExecutor("check", ConcurrencyLimit(WAITING, _TOO_MANY), AT_ONCE)
        # Apart: who waits for a PCCS keeps no turn.
        self._fetches = FairQueue(ConcurrencyLimit(WAITING, _TOO_MANY), FETCHES_AT_ONCE)
        self._refused: dict[bytes, tuple[float, QuoteRefusedError]] = {}  # oldest first

    async def verify(self, quote: bytes, client: Hashable = None, *, keep: bool = True) -> Verdict:
        """Return what ``quote`` (raw, or with the 16-byte header) says, if it is true now.

        ``client`` is equal for all callers that share turns; without it each caller is one.
        ``keep``: whether newer collateral is remembered, which may wait for the engine.

        Raises:
            QuoteRefusedError: it does not verify.
            UnavailableError: there is no collateral, or only older than what was seen before, or
                that it was seen cannot be stored, or too many callers wait already.
        """
        now, digest = self._now(), hashlib.sha256(quote).digest()
        self._refuse_again(digest)
        try:
            get = await self._found(quote, client)
            verdict, marks = await self.in_turn(lambda: self._verify(quote, get, now), client)
        except QuoteRefusedError as refused:
            self._remember(digest, refused)
            raise
        if keep and newer_marks(marks, self._memory.known()):
            await self._memory.remember(marks)
            require_as_new(marks, self._memory.known())  # others' quotes may have raised it
        return verdict

    async def warm_up(self) -> None:
        """Load what verifies quotes, on their thread: nothing waits for it, and nothing has to."""
        await self.in_turn(self._verifier.load)

    @property
    def health(self) -> CollateralHealth | None:
        """What tells how the collateral is doing, that of AMD too, if anything does."""
        sources: tuple[object, ...] = (self._collateral, self._amd.collateral)
        found = tuple(each for each in sources if isinstance(each, CollateralHealth))
        return _Healths(found) if found else None

    async def in_turn(self, work: Callable[[], T], client: Hashable = None) -> T:
        """Return what ``work`` returns, on the thread of the checks.

        Raises ``UnavailableError`` if too many callers wait already.
        """
        return await self._executor.run(work, client)

    def close(self) -> None:
        """Give the threads back."""
        self._executor.close()

    async def _found(
        self, quote: bytes, client: Hashable
    ) -> CollateralNow | Callable[[bytes], AmdCollateral]:
        """Return what has the collateral for ``quote``, which is fetched if it has to be."""
        if kind_of(quote).collateral is AmdCollateral:
            return lambda _: self._amd.now()
        source = self._collateral
        if callable(source):
            return source
        kind = await self.in_turn(lambda: platform_kind(quote, self._verifier.root_ca), client)
        collateral = source.at_hand(kind)
        if collateral is None:
            collateral = await self._fetches.run(lambda: source.collateral_of(kind), client)
        return lambda _: collateral

    def _verify(
        self, quote: bytes, get: Callable[[bytes], Collateral | AmdCollateral], now: datetime
    ) -> tuple[Verdict, dict[str, Mark]]:
        collateral = get(quote)
        verdict = self._verifier.verify(quote, collateral, now)
        marks = KINDS[verdict.tee].marks(verdict, collateral)
        require_as_new(marks, self._memory.known())
        return verdict, marks

    def _refuse_again(self, digest: bytes) -> None:
        known = self._refused.get(digest)
        if known is None:
            return
        until, refused = known
        if self._pace() >= until:
            del self._refused[digest]
            return
        raise QuoteRefusedError(refused.reason, refused.message, hint=refused.hint)

    def _remember(self, digest: bytes, refused: QuoteRefusedError) -> None:
        if len(self._refused) >= REMEMBERED:
            del self._refused[next(iter(self._refused))]
        # Without its traceback, which would keep the quote in memory.
        until = self._pace() + REMEMBERED_FOR.total_seconds()
        self._refused[digest] = (until, refused.with_traceback(None))
