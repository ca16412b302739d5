"""The collateral of quotes, from a PCCS with a cache.

Theory of operation. For each kind of platform (TEE, FMSPC, CA):

- nothing is asked for a quote whose PCK chain does not lead to the pinned root;
- one fetch at a time, whose result all who wait for it share; ``AT_ONCE`` kinds together;
- what is fetched is checked before it is kept: signatures, revocation, time, the kind that was
  asked for, and no part older than what is kept (a PCCS may be wrong, or be played back);
- what is kept and in its time is answered at once. Seen at the PCCS longer ago than
  ``SEEN_WITHIN``, or near its end, it is fetched again meanwhile;
- newer revocation lists that came for one kind serve all of the same authorities at once;
- nothing older serves than what ``known`` says was seen before, and what has become so, because
  another kind of platform brought a higher evaluation number, is fetched again;
- a fetch that failed is not repeated within ``FAILED_WITHIN``: what is kept serves until it
  expires, and each failure says until when; nothing kept, the failure is the answer.

An unexpected error fails its fetch, or its look at what is kept, and no other. It goes to
the event loop's exception handler at once, since no caller may be waiting for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

import msgspec

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.cache import MOST_KEPT, CollateralCache, Kept, with_newer_lists
from keyhouse.attestation.collateral.facts import (
    CollateralFacts,
    require_kind,
    require_sound,
    shown_time,
)
from keyhouse.attestation.collateral.marks import Mark, is_as_new, marks_of, require_as_new
from keyhouse.attestation.collateral.pccs import Pccs
from keyhouse.attestation.collateral.platform_kind import PlatformKind, platform_kind
from keyhouse.attestation.errors import (
    CollateralRefusedError,
    CollateralUnavailableError,
    CollateralUnusableError,
    QuoteProblem,
)
from keyhouse.base.errors import KeyhouseError, RefusedError

SEEN_WITHIN: Final = timedelta(days=1)
"""Collateral that was seen at the PCCS longer ago is fetched again."""

NEAR_END: Final = timedelta(days=7)
NEAR_END_AGAIN: Final = timedelta(hours=1)
"""With less than ``NEAR_END`` (or half its life) left, what was seen longer ago than this is."""

FAILED_WITHIN: Final = timedelta(seconds=60)
"""A fetch that failed is not repeated so soon."""

MOST_FAILED: Final = 256
"""Failures that are remembered."""

AT_ONCE: Final = 4
"""Fetches at once, each of another kind of platform."""

MOST_RUNNING: Final = 64
"""Kinds of platforms that are being fetched or wait to be."""

GRACE: Final = 5.0
"""Seconds that background fetches get at the end, so that what they bring is kept."""

LOOKED_AFTER: Final = 900.0
"""Seconds from one check of what is kept to the next: it stays new without being asked for."""

Clock = Callable[[], datetime]


class _Failure(msgspec.Struct, frozen=True):
    at: datetime
    error: KeyhouseError


class PccsSource:
    """The collateral of ``pccs``, kept in ``folder`` (``None``: in memory alone).

    ``root_ca``: the pinned root of the platforms' vendor, DER. ``now`` gives the time, with a zone.
    ``warn`` is told, in words, of fetches that failed and until when what is kept serves.
    ``told`` is given what each fetch brought. ``known``: the marks of what was seen before, in
    other processes too. ``grace``: seconds that background fetches get at the end. Use
    it with ``async with``, in one event loop; it owns ``pccs`` from then on.
    """

    def __init__(
        self,
        pccs: Pccs,
        root_ca: bytes,
        folder: Path | None = None,
        *,
        now: Clock | None = None,
        warn: Callable[[str], None] | None = None,
        told: Callable[[CollateralFacts], None] | None = None,
        known: Callable[[], Mapping[str, Mark]] | None = None,
        grace: float = GRACE,
    ) -> None:
        self._grace = grace
        self._pccs = pccs
        self._root_ca = root_ca
        self._cache = CollateralCache(folder, root_ca) if folder is not None else None
        self._now = now or _utc_now
        self._warn = warn or _say_nothing
        self._told = told or _say_nothing
        self._known = known or dict
        self._counts = {"fetched": 0, "failed": 0}
        self._kept: dict[PlatformKind, Kept] = {}  # at most MOST_KEPT, latest seen last
        self._failed: dict[PlatformKind, _Failure] = {}  # at most MOST_FAILED, latest last
        self._running: dict[PlatformKind, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._pccs.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._finish()
        finally:
            await self._pccs.__aexit__(*raised)

    async def _finish(self) -> None:
        """Give the fetches that still run a moment, then end them."""
        running = dict(self._running)
        if not running:
            return
        await asyncio.wait(running.values(), timeout=self._grace)
        for kind, task in running.items():
            if task.cancel():  # it was not done
                self._fail(kind, CollateralUnavailableError("the PCCS does not answer in time"))
        await asyncio.gather(*running.values(), return_exceptions=True)

    def expires(self) -> datetime | None:
        """Return the end, UTC, of what ends first of all that is kept in memory."""
        return min((kept.facts.expires for kept in self._kept.values()), default=None)

    def fetches(self) -> Mapping[str, int]:
        """Return the fetches so far by what became of them."""
        return self._counts

    async def collateral_for(self, quote: bytes) -> Collateral:
        """Return the collateral of the quote's kind of platform; it is sound now."""
        return await self.collateral_of(platform_kind(quote, self._root_ca))

    async def collateral_of(self, kind: PlatformKind) -> Collateral:
        """Return the collateral of ``kind``, which a quote under the pinned root has named.

        Raises ``CollateralUnavailableError``.
        """
        found = self.at_hand(kind)
        if found is None and await self._from_disk(kind) is not None:
            found = self.at_hand(kind)
        if found is not None:
            return found
        failure = self._failed_lately(kind)
        if failure is None:
            fetch = self._begin(kind)
            await asyncio.wait([fetch])  # one caller that stops waiting does not end it
            if not fetch.cancelled():  # it is at the end of the source alone
                fetch.result()
            failure = self._failed_lately(kind)
        fetched = self._usable(kind)
        if fetched is None:
            raise _unavailable(kind, failure)
        return fetched.collateral

    def at_hand(self, kind: PlatformKind) -> Collateral | None:
        """Return the collateral of ``kind`` if it is in memory; fetch it again meanwhile if due."""
        kept = self._usable(kind)
        if kept is None:
            return None
        # One that cannot be begun now will be: what is kept serves.
        room = kind in self._running or len(self._running) < MOST_RUNNING
        if room and _due(kept, self._now()) and not self._failed_lately(kind):
            self._begin(kind)
        return kept.collateral

    async def look_after(self, *, every: float = LOOKED_AFTER) -> None:
        """Keep what is kept new, also what is in the folder, until cancelled.

        ``every``: seconds from one look to the next.
        """
        unread = self._cache
        while True:
            try:
                if unread is not None:
                    await self._recall(unread)
                    unread = None
                self.refresh_due()
            # One that ended this task would let all that is kept expire, and show at the stop only.
            except Exception as error:  # noqa: BLE001
                _tell_defect(error)
            await asyncio.sleep(every)

    async def _recall(self, cache: CollateralCache) -> None:
        """Take what is in the folder into memory."""
        for kept in await asyncio.to_thread(cache.read_all, self._now()):
            if kept.facts.kind not in self._kept:
                self._remember(kept)

    def refresh_due(self) -> None:
        """Begin to fetch what is kept and is due."""
        for kind, kept in list(self._kept.items()):
            due = _due(kept, self._now()) or self._usable(kind) is None
            if due and not self._failed_lately(kind) and len(self._running) < MOST_RUNNING:
                self._begin(kind)

    def _usable(self, kind: PlatformKind) -> Kept | None:
        kept = self._kept.get(kind)
        if kept is None or not kept.facts.issued <= self._now() <= kept.facts.expires:
            return None
        return kept if is_as_new(marks_of(kept.facts), self._known()) else None

    async def _from_disk(self, kind: PlatformKind) -> Kept | None:
        if self._cache is None or kind in self._kept or kind in self._running:
            return None
        kept = await asyncio.to_thread(self._cache.read, kind, self._now())
        if kept is not None and kind not in self._kept:
            self._remember(kept)
        return self._usable(kind)

    def _failed_lately(self, kind: PlatformKind) -> _Failure | None:
        failure = self._failed.get(kind)
        if failure and timedelta(0) <= self._now() - failure.at < FAILED_WITHIN:
            return failure
        return None

    def _begin(self, kind: PlatformKind) -> "asyncio.Task[None]":
        """Return the fetch of ``kind`` that runs, started now if none does."""
        task = self._running.get(kind)
        if task is None:
            if len(self._running) >= MOST_RUNNING:
                raise CollateralUnavailableError(
                    "too many kinds of platforms wait for their collateral", hint="try again"
                )
            task = asyncio.create_task(self._fetch(kind))
            self._running[kind] = task
            task.add_done_callback(lambda _: self._running.pop(kind, None))
        return task

    async def _fetch(self, kind: PlatformKind) -> None:
        try:
            await self._take(kind)
        except (CollateralRefusedError, CollateralUnavailableError) as error:
            self._fail(kind, error)
        except Exception as error:  # noqa: BLE001 - see above
            _tell_defect(error)
            self._fail(
                kind, CollateralUnavailableError("its fetch failed in a way that is a defect")
            )

    async def _take(self, kind: PlatformKind) -> None:
        """Fetch the collateral of ``kind``, and keep it if it is to be believed."""
        async with self._turn:
            collateral = await self._pccs.fetch(kind)
        kept = await self._judged(kind, collateral)
        self._counts["fetched"] += 1
        self._failed.pop(kind, None)
        self._remember(kept)
        self._told(kept.facts)
        await self._write(kind)
        await self._share_lists(kept)

    async def _share_lists(self, newest: Kept) -> None:
        """Let the other kinds have the revocation lists of ``newest`` where they are newer."""
        for kind, kept in list(self._kept.items()):
            now = self._now()
            found = await asyncio.to_thread(with_newer_lists, kept, newest, self._root_ca, now)
            if found is not None and self._kept.get(kind) is kept:  # not fetched meanwhile
                self._kept[kind] = found
                await self._write(kind)

    async def _write(self, kind: PlatformKind) -> None:
        """Write what is kept of ``kind`` now; one after the other, for files have one writer."""
        if self._cache is None:
            return
        async with self._writing:
            kept = self._kept.get(kind)
            if kept is None:
                return
            try:
                await asyncio.to_thread(self._cache.write, kept)
            except RefusedError as error:
                self._warn(error.message)

    async def _judged(self, kind: PlatformKind, collateral: Collateral) -> Kept:
        now = self._now()
        facts = await asyncio.to_thread(require_sound, collateral, self._root_ca, now)
        require_kind(facts, kind)
        require_as_new(marks_of(facts), self._known())
        before = self._kept.get(kind)
        if before is not None and facts.older_than(before.facts):
            raise CollateralUnusableError(
                QuoteProblem.COLLATERAL,
                "the PCCS gives older collateral than it gave before",
                hint="let the PCCS refresh its own cache",
            )
        return Kept(collateral, facts, now)

    def _fail(self, kind: PlatformKind, error: KeyhouseError) -> None:
        self._counts["failed"] += 1
        self._failed.pop(kind, None)
        self._failed[kind] = _Failure(self._now(), error)
        if len(self._failed) > MOST_FAILED:
            del self._failed[next(iter(self._failed))]
        kept = self._usable(kind)
        if kept is not None:
            end = shown_time(kept.facts.expires)
            self._warn(f"{error.message}; the collateral of {kind} is kept and expires at {end}")

    def _remember(self, kept: Kept) -> None:
        kind = kept.facts.kind
        self._kept.pop(kind, None)
        self._kept[kind] = kept
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]


def _due(kept: Kept, now: datetime) -> bool:
    """Tell whether ``kept`` is to be fetched again, though it is still used."""
    life = kept.facts.expires - kept.facts.issued
    near = kept.facts.expires - now < min(NEAR_END, life / 2)
    age = now - kept.seen
    return not timedelta(0) <= age < (NEAR_END_AGAIN if near else SEEN_WITHIN)


def _unavailable(kind: PlatformKind, failure: _Failure | None) -> CollateralUnavailableError:
    what = f"there is no collateral for {kind}"
    if failure is None:
        return CollateralUnavailableError(f"{what} that is valid now", hint="try again")
    return CollateralUnavailableError(f"{what}: {failure.error.message}", hint=failure.error.hint)


def _tell_defect(error: Exception) -> None:
    """Tell at once of an error that no code foresaw."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": "the collateral of quotes is not looked after", "exception": error}
    )


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _say_nothing(_: object) -> None:
    """Ignore what is reported."""
