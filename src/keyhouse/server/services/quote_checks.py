"""Verifies quotes for anonymous clients: off the event loop, few at once, with stored refusals.

A check costs milliseconds, and callers are unknown. So callers wait in a bounded queue, and a
refused quote is refused again from memory for some seconds. Nothing is fetched for a quote unless
its PCK chain leads to the platform's own root. Collateral that is older than earlier collateral of
this process or of its journal is refused, whatever its own dates are. A memory stores the age of
the newest collateral as marks.
"""

import hashlib
import time
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

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
from keyhouse.attestation.sources.selection import (
    AmdChecks,
    CollateralHealth,
    CollateralNow,
    CollateralPerPlatform,
)
from keyhouse.coordinator import Engine, Running, SeeCollateral
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, FairQueue


class CollateralMemory(Protocol):
    """The interface of a memory for marks: the age of each part of the newest seen collateral."""

    def known(self) -> Mapping[str, Mark]:
        """Return the marks. They never decrease. Any thread may call this."""
        ...

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Return after newer ``marks`` are stored durably.

        Raises ``UnavailableError`` or ``BrokenError`` if they cannot be stored.
        """
        ...


class ProcessMarks:
    """The marks (ages of seen collateral) in the memory of this process."""

    def __init__(self) -> None:
        self._known: dict[str, Mark] = {}

    def known(self) -> Mapping[str, Mark]:
        """Return the ages of the collateral that this process has seen."""
        return self._known

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Store the ``marks`` of collateral that are newer than the stored marks."""
        self._known = {**self._known, **newer_marks(marks, self._known)}


class JournalledMarks:
    """The marks (ages of seen collateral) in the journal of ``engine``.

    They survive restarts, and a clock cannot reduce them. Without a journal there are no marks, and
    nothing is stored.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def known(self) -> Mapping[str, Mark]:
        """Return the marks in the present state of the journal."""
        state = self._engine.view.state
        return state.collateral_marks if isinstance(state, Running) else {}

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Append the ``marks`` that are newer than the marks in the journal."""
        await self._engine.submit(SeeCollateral(dict(marks)))


T = TypeVar("T")


class _Healths(msgspec.Struct, frozen=True):
    """The reports about collateral of several sources, as a single report."""

    each: tuple[CollateralHealth, ...]

    def expires(self) -> datetime | None:
        ends = (health.expires() for health in self.each)
        return min((end for end in ends if end is not None), default=None)

    def fetches(self) -> Mapping[str, int]:
        return {kind: count for health in self.each for kind, count in health.fetches().items()}


AT_ONCE: Final = 1
"""Quotes verified at the same time. dcap-qvl holds the interpreter's lock, so more gain nothing."""

FETCHES_AT_ONCE: Final = 4
"""Callers that wait for the same collateral at the same time. One fetch serves all of them."""

WAITING: Final = 16_384
"""Largest number of callers that wait for a check, and of callers that wait for collateral.

The number exceeds all connections and calls together. Clients take turns, so a flood excludes
nobody. The memory of requests is limited at their entry.
"""

REMEMBERED: Final = 256
"""Refused quotes that are refused again without a check."""

REMEMBERED_FOR: Final = timedelta(seconds=10)
"""The duration of repeated refusals. Later collateral or a later time may accept the quote."""

_TOO_MANY: Final = "too many callers are having quotes verified"


class VerifiedQuote(msgspec.Struct, frozen=True):
    """The verdict on a quote, the collateral that verified the quote, and its marks."""

    verdict: Verdict
    collateral: Collateral | AmdCollateral
    marks: Mapping[str, Mark]


class QuoteChecks:
    """Verifies quotes under ``root_ca`` (DER), with the collateral and the time of the call.

    ``collateral``: a function that returns one bundle, or a source for each kind of platform.
    ``now`` returns the security time, which may stand still while the host's clock is behind the
    journal. ``memory``: the marks of the newest collateral; None means the marks of this process
    alone. ``pace``: a clock in seconds that never stands still. ``amd``: the roots and collateral
    of AMD.
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
        self._root_ca = root_ca
        self._verifier = Verifier(root_ca, self._amd.roots)
        self._collateral = collateral
        self._now = now
        self._memory = memory or ProcessMarks()
        self._pace = pace
        self._executor = BoundedExecutor("check", ConcurrencyLimit(WAITING, _TOO_MANY), AT_ONCE)
        # A queue of its own: callers that wait for a PCCS must not delay checks.
        self._fetches = FairQueue(ConcurrencyLimit(WAITING, _TOO_MANY), FETCHES_AT_ONCE)
        self._refused: dict[bytes, tuple[float, QuoteRefusedError]] = {}  # oldest first

    async def verify(self, quote: bytes, client: Hashable = None) -> Verdict:
        """Return the verdict on ``quote`` (raw, or with the 16-byte header).

        Clients take turns in the queue for verification. Calls with an equal ``client`` share the
        turns of this client; a call without ``client`` counts as a separate client. The marks of
        newer collateral are stored, which may wait for the engine.

        Raises:
            QuoteRefusedError: the quote does not verify.
            UnavailableError: there is no collateral, or only older collateral than before, or its
                age cannot be stored, or too many callers wait.
        """
        found = await self.verified(quote, client)
        if newer_marks(found.marks, self._memory.known()):
            await self._memory.remember(found.marks)
            # Other quotes may have raised the marks.
            require_as_new(found.marks, self._memory.known())
        return found.verdict

    async def verified(self, quote: bytes, client: Hashable = None) -> VerifiedQuote:
        """Verify ``quote`` as ``verify`` does, but store no marks.

        So this call never waits for the engine. It raises the errors of ``verify``.
        """
        now, digest = self._now(), hashlib.sha256(quote).digest()
        self._refuse_again(digest)
        try:
            get = await self._collateral_for(quote, client)
            return await self.in_turn(lambda: self._verify(quote, get, now), client)
        except QuoteRefusedError as refused:
            self._remember(digest, refused)
            raise

    async def warm_up(self) -> None:
        """Load the libraries of the verifier on their thread. Nothing waits for this."""
        await self.in_turn(self._verifier.load)

    @property
    def health(self) -> CollateralHealth | None:
        """The report on all collateral, including AMD's, or None without collateral."""
        sources: tuple[object, ...] = (self._collateral, self._amd.collateral)
        found = tuple(each for each in sources if isinstance(each, CollateralHealth))
        return _Healths(found) if found else None

    async def in_turn(self, work: Callable[[], T], client: Hashable = None) -> T:
        """Return the result of ``work``, which runs on the thread of the checks.

        ``client``: as in ``verify``. Raises ``UnavailableError`` if too many callers wait.
        """
        return await self._executor.run(work, client)

    def close(self) -> None:
        """End the threads that verify quotes."""
        self._executor.close()

    async def _collateral_for(
        self, quote: bytes, client: Hashable
    ) -> CollateralNow | Callable[[bytes], AmdCollateral]:
        """Fetch missing collateral. Return a function from a quote to its collateral.

        ``client``: as in ``verify``.
        """
        if kind_of(quote).collateral is AmdCollateral:
            return lambda _: self._amd.now()
        source = self._collateral
        if callable(source):
            return source
        kind = await self.in_turn(lambda: platform_kind(quote, self._root_ca), client)
        collateral = source.at_hand(kind)
        if collateral is None:
            collateral = await self._fetches.run(lambda: source.collateral_of(kind), client)
        return lambda _: collateral

    def _verify(
        self, quote: bytes, get: Callable[[bytes], Collateral | AmdCollateral], now: datetime
    ) -> VerifiedQuote:
        collateral = get(quote)
        verdict = self._verifier.verify(quote, collateral, now)
        marks = KINDS[verdict.tee].marks(verdict, collateral)
        require_as_new(marks, self._memory.known())
        return VerifiedQuote(verdict, collateral, marks)

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
        # The traceback would keep the quote in memory.
        until = self._pace() + REMEMBERED_FOR.total_seconds()
        self._refused[digest] = (until, refused.with_traceback(None))
