"""The collateral of quotes, from a PCCS with a cache.

Theory of operation. For each kind of platform (TEE, FMSPC, CA):

- A quote causes a request only if its PCK chain leads to the pinned root.
- At most one fetch runs, and all callers share its result. At most ``AT_ONCE`` kinds are fetched at
  the same time.
- Fetched collateral is checked before it is kept: signatures, revocation, time, the requested kind,
  and no part older than the kept part. A PCCS may be wrong, or an attacker may replay its answers.
- Valid collateral in memory is returned at once. A fetch runs in the background if this collateral
  was seen longer ago than ``SEEN_WITHIN`` (a day), or ends soon.
- Newer revocation lists from a fetch for one kind serve all kinds under the same authorities.
- Collateral older than the marks in ``known`` is not used. A fetch for another kind may return a
  higher evaluation number. Then the kept collateral is too old, and is fetched again.
- A failed fetch is not repeated within ``FAILED_WITHIN`` (a minute). The kept collateral serves
  until it expires, and each failure reports that time. Without kept collateral, the caller receives
  the failure.

An unexpected error ends only its own fetch, or its own check of the kept collateral. The event
loop's exception handler receives the error at once, because possibly no caller waits.
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
    Mark,
    PlatformKind,
    is_as_new,
    marks_of,
    require_as_new,
    require_kind,
    require_sound,
    shown_time,
)
from keyhouse.attestation.collateral.pccs import Pccs
from keyhouse.attestation.errors import (
    CollateralRefusedError,
    CollateralUnavailableError,
    CollateralUnusableError,
    QuoteProblem,
)
from keyhouse.attestation.kinds.table import platform_kind
from keyhouse.base.errors import KeyhouseError, RefusedError

SEEN_WITHIN: Final = timedelta(days=1)
"""Collateral seen at the PCCS longer ago is fetched again."""

# Chosen: leaves a week to repair a PCCS; collateral of Intel is valid for 30 days.
NEAR_END: Final = timedelta(days=7)
NEAR_END_AGAIN: Final = timedelta(hours=1)
"""Near its end, collateral is fetched again after ``NEAR_END_AGAIN``.

Near means that less than ``NEAR_END``, or less than half of its life, is left.
"""

FAILED_WITHIN: Final = timedelta(seconds=60)
"""A failed fetch is not repeated within this time."""

MOST_FAILED: Final = 256
"""Maximum number of remembered failures."""

AT_ONCE: Final = 4
"""Maximum of simultaneous fetches, each for a different kind of platform."""

MOST_RUNNING: Final = 64
"""Maximum of kinds that are being fetched or wait for a fetch."""

GRACE: Final = 5.0
"""Seconds for background fetches at the end, so that their results are kept."""

REFRESH_CHECK: Final = 900.0
"""Seconds between two checks of the kept collateral, which keep it new without requests."""

Clock = Callable[[], datetime]


class _Failure(msgspec.Struct, frozen=True):
    at: datetime
    error: KeyhouseError


class PccsSource:
    """Fetches collateral from ``pccs`` into ``folder`` (``None``: only into memory).

    ``root_ca``: the pinned root of the platforms' vendor, DER. ``now`` returns the time, with a
    zone. ``warn`` receives texts about failed fetches. ``on_facts`` receives the facts of each
    successful fetch. ``known`` returns the marks of collateral seen before, also in other
    processes. ``grace``: seconds that background fetches have at the end of the source. Use with
    ``async with``, in a single event loop. The source owns ``pccs`` from then on.
    """

    def __init__(
        self,
        pccs: Pccs,
        root_ca: bytes,
        folder: Path | None = None,
        *,
        now: Clock | None = None,
        warn: Callable[[str], None] | None = None,
        on_facts: Callable[[CollateralFacts], None] | None = None,
        known: Callable[[], Mapping[str, Mark]] | None = None,
        grace: float = GRACE,
    ) -> None:
        self._grace = grace
        self._pccs = pccs
        self._root_ca = root_ca
        self._cache = CollateralCache(folder, root_ca) if folder is not None else None
        self._now = now or _utc_now
        self._warn = warn or _ignore
        self._on_facts = on_facts or _ignore
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
        """Wait for the running fetches for ``grace`` seconds, then cancel them."""
        running = dict(self._running)
        if not running:
            return
        await asyncio.wait(running.values(), timeout=self._grace)
        for kind, task in running.items():
            if task.cancel():  # it was not done
                self._fail(kind, CollateralUnavailableError("the PCCS does not answer in time"))
        await asyncio.gather(*running.values(), return_exceptions=True)

    def expires(self) -> datetime | None:
        """Return the earliest end, UTC, of all collateral in memory."""
        return min((kept.facts.expires for kept in self._kept.values()), default=None)

    def fetches(self) -> Mapping[str, int]:
        """Return the number of fetches so far, by result."""
        return self._counts

    async def collateral_for(self, quote: bytes) -> Collateral:
        """Return valid collateral for the quote's kind of platform."""
        return await self.collateral_of(platform_kind(quote, self._root_ca))

    async def collateral_of(self, kind: PlatformKind) -> Collateral:
        """Return the collateral of ``kind``. Raises ``CollateralUnavailableError``.

        The caller has read ``kind`` from a quote under the pinned root.
        """
        found = self.at_hand(kind)
        if found is None and await self._from_disk(kind) is not None:
            found = self.at_hand(kind)
        if found is not None:
            return found
        failure = self._failed_lately(kind)
        if failure is None:
            fetch = self._begin(kind)
            await asyncio.wait([fetch])  # a cancelled caller does not cancel the fetch
            if not fetch.cancelled():  # cancelled only at the end of the source
                fetch.result()
            failure = self._failed_lately(kind)
        fetched = self._usable(kind)
        if fetched is None:
            raise _unavailable(kind, failure)
        return fetched.collateral

    def at_hand(self, kind: PlatformKind) -> Collateral | None:
        """Return the collateral of ``kind`` from memory; None without usable collateral there.

        Starts a fetch in the background if this collateral was seen long ago, or ends soon.
        """
        kept = self._usable(kind)
        if kept is None:
            return None
        # Without room the fetch begins later. The kept collateral serves until then.
        room = kind in self._running or len(self._running) < MOST_RUNNING
        if room and _due(kept, self._now()) and not self._failed_lately(kind):
            self._begin(kind)
        return kept.collateral

    async def refresh_until_cancelled(self, *, every: float = REFRESH_CHECK) -> None:
        """Load the collateral in the folder once; refresh all kept collateral until cancelled.

        ``every``: seconds between two checks.
        """
        unread = self._cache
        while True:
            try:
                if unread is not None:
                    await self._recall(unread)
                    unread = None
                self.refresh_due()
            # An error that ended this task would let all kept collateral expire. The error itself
            # would appear only at the stop.
            except Exception as error:  # noqa: BLE001
                _report_defect(error)
            await asyncio.sleep(every)

    async def _recall(self, cache: CollateralCache) -> None:
        """Load the collateral in the folder into memory."""
        for kept in await asyncio.to_thread(cache.read_all, self._now()):
            if kept.facts.kind not in self._kept:
                self._remember(kept)

    def refresh_due(self) -> None:
        """Start a fetch for each kind of platform with old, expiring or unusable collateral."""
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
        """Return the running fetch of ``kind``; start a fetch if none runs.

        Raises ``CollateralUnavailableError`` if too many kinds wait.
        """
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
            await self._fetch_and_keep(kind)
        except (CollateralRefusedError, CollateralUnavailableError) as error:
            self._fail(kind, error)
        except Exception as error:  # noqa: BLE001 - see above
            _report_defect(error)
            self._fail(
                kind,
                CollateralUnavailableError(
                    "the fetch of the collateral failed with an unexpected error"
                ),
            )

    async def _fetch_and_keep(self, kind: PlatformKind) -> None:
        """Fetch, verify and store the collateral of ``kind``."""
        async with self._turn:
            collateral = await self._pccs.fetch(kind)
        kept = await self._verified(kind, collateral)
        self._counts["fetched"] += 1
        self._failed.pop(kind, None)
        self._remember(kept)
        self._on_facts(kept.facts)
        await self._write(kind)
        await self._share_lists(kept)

    async def _share_lists(self, newest: Kept) -> None:
        """Copy newer revocation lists of ``newest`` into the kept collateral of all kinds."""
        for kind, kept in list(self._kept.items()):
            now = self._now()
            found = await asyncio.to_thread(with_newer_lists, kept, newest, self._root_ca, now)
            if found is not None and self._kept.get(kind) is kept:  # not fetched in the meantime
                self._kept[kind] = found
                await self._write(kind)

    async def _write(self, kind: PlatformKind) -> None:
        """Write the kept collateral of ``kind`` to the folder.

        Writes are sequential, as a file has one writer.
        """
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

    async def _verified(self, kind: PlatformKind, collateral: Collateral) -> Kept:
        now = self._now()
        facts = await asyncio.to_thread(require_sound, collateral, self._root_ca, now)
        require_kind(facts, kind)
        require_as_new(marks_of(facts), self._known())
        before = self._kept.get(kind)
        if before is not None and facts.older_than(before.facts):
            raise CollateralUnusableError(
                QuoteProblem.COLLATERAL,
                "the PCCS returns older collateral than before",
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
    """Return whether to fetch ``kept`` again: seen too long ago, or ending soon.

    Until a fetch succeeds, ``kept`` stays in use.
    """
    life = kept.facts.expires - kept.facts.issued
    near = kept.facts.expires - now < min(NEAR_END, life / 2)
    age = now - kept.seen
    return not timedelta(0) <= age < (NEAR_END_AGAIN if near else SEEN_WITHIN)


def _unavailable(kind: PlatformKind, failure: _Failure | None) -> CollateralUnavailableError:
    if failure is None:
        return CollateralUnavailableError(f"there is no valid collateral for {kind} now")
    return CollateralUnavailableError(
        f"there is no collateral for {kind}: {failure.error.message}", hint=failure.error.hint
    )


def _report_defect(error: Exception) -> None:
    """Report an unexpected error of a fetch or of a check as a defect of Keyhouse."""
    asyncio.get_running_loop().call_exception_handler(
        {"message": "a fetch or a check of collateral failed unexpectedly", "exception": error}
    )


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _ignore(_: object) -> None:
    """Ignore the argument: the default of ``warn`` and ``on_facts``."""
