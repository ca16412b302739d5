"""Notifies running workloads of changes: the streams of ``Watch``, for all workloads at once.

A stream has no task, no queue and no timer. A new view costs a comparison of a few objects. If the
inputs of the digests differ, one task makes the digests of each type once, and pushes one message
to each stream of the type, some streams in each turn of the event loop. So only a change that
concerns all streams costs O(streams).

A message has digests and no secret. A stream needs the right to ``Fetch``, and ends with this
right: at a renewal of the key, a revocation, a new marble root, or the end of the certificate. Each
message names a time in which workloads spread their next call.

The same task sends a message to each quiet stream once in ``QUIET`` seconds. So server and workload
notice a dead peer. The streams end if the lease ends, or if the store does not confirm the view.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import suppress
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from keyhouse.base.errors import KeyhouseError, UnavailableError, release_frames
from keyhouse.base.log import log
from keyhouse.coordinator import Engine, Operation, Running
from keyhouse.coordinator.core.events import Event, MarblesRenewed, WorkloadsRevoked
from keyhouse.coordinator.core.lineages import (
    LineageSupersededError,
    RenewFirstError,
    lineage_of,
    require_newest,
)
from keyhouse.manifest import Renewal
from keyhouse.server.net.error_mapping import OutdatedConnectionError
from keyhouse.server.net.feed import Feed
from keyhouse.server.services.digests import DigestCache, Digests, Inputs
from keyhouse.server.services.renewal_checks import Reader, end_of

if TYPE_CHECKING:
    from keyhouse.coordinator import ReadGate

RENEWAL_MS: Final = 10
"""Milliseconds for each lineage, in which workloads spread their renewals after a change.

After an update, a workload costs the coordinator up to 8 ms: two handshakes and four calls, without
a quote. So 2,000 workloads use three quarters of a processor during their 20 seconds.
"""

FETCH_MS: Final = 1
"""Milliseconds for each lineage, in which workloads spread other calls after a change."""

STREAMS: Final = 2
"""Streams of one lineage. A further stream ends the oldest stream."""

QUIET: Final = 60.0
"""Seconds between two messages of a quiet stream."""

K = TypeVar("K", bound=Hashable)

_TICK: Final = 1.0  # seconds between two looks at the lease and at the ends of certificates
_CONFIRMED: Final = 10.0  # seconds between two confirmations of the view by the store
_TURN: Final = 64  # messages before all other ready work has its turn: about 2 ms
_SECOND: Final = 1_000_000


class Advice(Enum):
    """The next step of a workload after a message."""

    NONE = 0
    RENEW = 1
    GO_ELSEWHERE = 3


class Notice(msgspec.Struct, frozen=True):
    """A message of a stream to a running workload.

    ``spread_ms``: the workload chooses a random time within these milliseconds for its next call.
    """

    digests: Digests
    now: int  # microseconds since 1970
    advice: Advice = Advice.NONE
    spread_ms: int = 0


class Watched(msgspec.Struct, frozen=True):
    """The digests for a workload, and the inputs from which they were made."""

    reader: Reader
    inputs: Inputs
    digests: Digests
    renewal: Renewal
    now: int  # microseconds since 1970

    def notice(self, certificate: bytes) -> Notice:
        """Return the first message of a stream of ``Watch``: digests, an advice and a range.

        The advice is to renew if the certificate lasts longer than the manifest now allows. The
        workload waits for a random time within the range, so workloads do not come all at once.
        ``certificate``: the digest ``certificate`` that the workload has. If the present digest
        differs, the workload has to renew, so the range is longer.
        """
        # An update may have shortened the validity.
        is_long = self.reader.lineage.end > end_of(self.renewal, self.now)
        renews = is_long or certificate != self.digests.certificate
        spread = _spread(self.inputs.state, RENEWAL_MS if renews else FETCH_MS)
        return Notice(self.digests, self.now, Advice.RENEW if is_long else Advice.NONE, spread)


class _Watcher:
    """An open stream to a running workload."""

    __slots__ = ("digests", "end", "feed", "key", "lineage", "marble_type", "root")

    def __init__(self, watched: Watched, feed: Feed) -> None:
        reader = watched.reader
        self.feed = feed
        self.lineage = reader.claim.id
        self.key = reader.claim.key
        self.marble_type = reader.lineage.marble_type
        self.end = reader.end  # of the certificate: microseconds since 1970
        self.root = watched.inputs.roots[0]
        self.digests = watched.digests  # last sent


class Watches:
    """All streams of this process to running workloads. Use on the event loop's thread only.

    ``digests`` makes the digests of a message, and ``encode`` its bytes. ``gate``
    confirms that a view is the newest state; None: the store is not shared.
    """

    def __init__(
        self,
        engine: Engine,
        digests: DigestCache,
        gate: "ReadGate | None",
        encode: Callable[[Notice], bytes],
    ) -> None:
        self.messages = 0  # messages after the first messages
        self._engine = engine
        self._digests = digests
        self._gate = gate
        self._encode = encode
        self._all: dict[_Watcher, None] = {}
        self._types: dict[str, dict[_Watcher, None]] = {}
        self._lineages: dict[bytes, dict[_Watcher, None]] = {}
        self._inputs: Inputs | None = None  # of the last round
        self._concerned: dict[_Watcher, None] = {}  # by events since the last round
        self._last: tuple[Notice | None, bytes] = _NO_MESSAGE
        self._late: list[_Watcher] = []  # their first message may be of an earlier view
        self._due: list[tuple[float, int, _Watcher]] = []  # heap; the number breaks ties
        self._numbers = count()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, watched: Watched, feed: Feed) -> Callable[[], None]:
        """Add a stream after its first message. Return the function to call at its end.

        ``watched``: the workload and its digests. ``feed`` sends the later messages.
        """
        if not self._tasks:
            # A coordinator without streams does nothing for them at a change.
            self._engine.current.on_events.append(self._published)
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._run()), loop.create_task(self._confirm())]
        watcher = _Watcher(watched, feed)
        self._all[watcher] = None
        self._types.setdefault(watcher.marble_type, {})[watcher] = None
        own = self._lineages.setdefault(watcher.lineage, {})
        own[watcher] = None
        self._schedule(watcher, watched.now)
        if len(own) > STREAMS:
            newer = UnavailableError(
                "a newer stream of this workload replaces this stream",
                hint=f"use the newer stream; open at most {STREAMS} streams for a workload",
            )
            next(iter(own)).feed.end(newer)
        inputs = self._inputs
        is_old = self._engine.view.state is not watched.inputs.state
        if is_old:
            self._check(watcher, self._running(), self._engine.current.now())
        if is_old or inputs is None or not inputs.equals(watched.inputs):
            self._late.append(watcher)
            self._wake.set()
        return lambda: self._unsubscribe(watcher)

    def close(self) -> None:
        """End all streams, because the coordinator stops."""
        for task in self._tasks:
            task.cancel()
        stopping = UnavailableError("the coordinator is stopping", hint="try again later")
        for watcher in tuple(self._all):
            self._send_away(watcher, stopping)

    def _unsubscribe(self, watcher: _Watcher) -> None:
        if watcher not in self._all:
            return
        del self._all[watcher]
        _remove(self._types, watcher.marble_type, watcher)
        _remove(self._lineages, watcher.lineage, watcher)
        watcher.feed = _CLOSED

    def _published(self, events: Iterable[Event]) -> None:
        """Wake the task of the streams if ``events``, just published, concern a stream."""
        if not self._all:
            return
        for event in events:
            match event:
                case MarblesRenewed():
                    for each in event.renewals:
                        self._concerned |= self._lineages.get(each.lineage, {})
                case WorkloadsRevoked():
                    self._concerned = dict(self._all)
                case _:
                    pass
        if self._concerned or self._changed(self._engine.current.now()):
            self._wake.set()

    def _changed(self, now: int) -> Inputs | None:
        """Return the inputs of the present view if they differ from those of the last messages.

        ``now``: microseconds since 1970. None: the inputs are equal.
        """
        inputs = Inputs.of(self._running(), now)
        same = self._inputs is not None and self._inputs.equals(inputs)
        return None if same else inputs

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK if self._all else None):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._round()
            except KeyhouseError as error:
                await self._end_all(error)
            except Exception as error:  # noqa: BLE001 - streams without this task would be silent
                log.error("streams of workloads failed", error=type(error).__qualname__)
                await self._end_all(UnavailableError("the stream failed", hint="connect again"))

    async def _round(self) -> None:
        self._last = _NO_MESSAGE  # the same notice has another place in the journal now
        self._engine.lease.require()
        now = self._engine.current.now()
        await self._follow_events(now)
        await self._follow_inputs(now)
        late, self._late = self._late, []
        for watcher in late:
            if self._inputs is not None:
                await self._notify((watcher,), self._inputs, watcher.marble_type, now)
        await self._serve_due(now)

    async def _confirm(self) -> None:
        """Confirm the view by the store every ten seconds. End the streams if this fails."""
        while True:
            await asyncio.sleep(_CONFIRMED)
            if not self._all or self._gate is None:
                continue
            try:
                await self._gate.passed()
            except KeyhouseError as error:
                await self._end_all(error)

    async def _follow_events(self, now: int) -> None:
        """End streams whose lineage has another key, or was revoked.

        ``now``: microseconds since 1970, as in the methods below.
        """
        concerned, self._concerned = self._concerned, {}
        state = self._running()
        async for watcher in self._in_turns(concerned):
            self._check(watcher, state, now)

    async def _follow_inputs(self, now: int) -> None:
        inputs = self._changed(now)
        if inputs is None:
            return
        self._inputs = inputs
        for marble_type, watchers in tuple(self._types.items()):
            await self._notify(tuple(watchers), inputs, marble_type, now)

    async def _notify(
        self, watchers: Iterable[_Watcher], inputs: Inputs, marble_type: str, now: int
    ) -> None:
        """Send the digests of ``marble_type`` to ``watchers`` that do not have them."""
        try:
            digests = await self._digests.of(inputs, marble_type, now)
        except KeyhouseError as error:
            release_frames(error)
            async for watcher in self._in_turns(watchers):
                watcher.feed.end(error)
            return
        changed = Notice(digests, now, spread_ms=_spread(inputs.state, FETCH_MS))
        async for watcher in self._in_turns(watchers):
            if watcher.root != inputs.roots[0]:
                watcher.digests = digests
                self._end_for_renewal(watcher, _OTHER_ROOT, inputs.state, now)
            elif watcher.digests != digests:
                watcher.digests = digests
                self._push(watcher, changed)

    async def _serve_due(self, now: int) -> None:
        """Send a message to each quiet stream, and end the streams of ended certificates."""
        time, state = asyncio.get_running_loop().time(), self._running()
        due: list[_Watcher] = []
        while self._due and self._due[0][0] <= time:
            due.append(heappop(self._due)[2])
        async for watcher in self._in_turns(due):
            if now >= watcher.end:
                watcher.feed.end(_ENDED)
            elif self._check(watcher, state, now):
                self._push(watcher, Notice(watcher.digests, now))
                self._schedule(watcher, now)

    def _schedule(self, watcher: _Watcher, now: int) -> None:
        left = min(QUIET, (watcher.end - now) / _SECOND)
        due = asyncio.get_running_loop().time() + left
        heappush(self._due, (due, next(self._numbers), watcher))

    def _check(self, watcher: _Watcher, state: Running, now: int) -> bool:
        """Return whether the stream of ``watcher`` may stay open. Otherwise end the stream."""
        try:
            require_newest(lineage_of(state, watcher.lineage, now), watcher.key)
        except RenewFirstError as error:
            self._end_for_renewal(watcher, error, state, now)
        except LineageSupersededError:
            watcher.feed.end(_RENEWED)
        except KeyhouseError as error:
            watcher.feed.end(error)
        else:
            return True
        return False

    def _end_for_renewal(
        self, watcher: _Watcher, error: RenewFirstError, state: Running, now: int
    ) -> None:
        spread = _spread(state, RENEWAL_MS)
        self._push(watcher, Notice(watcher.digests, now, Advice.RENEW, spread))
        watcher.feed.end(error)

    def _send_away(self, watcher: _Watcher, error: KeyhouseError) -> None:
        """End a stream with ``error``. Its workload can continue at another coordinator."""
        now, spread = self._engine.current.now(), FETCH_MS * len(self._all)
        self._push(watcher, Notice(watcher.digests, now, Advice.GO_ELSEWHERE, spread))
        watcher.feed.end(error)

    async def _end_all(self, error: KeyhouseError) -> None:
        release_frames(error)
        async for watcher in self._in_turns(tuple(self._all)):
            self._send_away(watcher, error)

    def _push(self, watcher: _Watcher, notice: Notice) -> None:
        self.messages += 1
        if notice != self._last[0]:
            self._last = (notice, self._encode(notice))
        watcher.feed.push(self._last[1])

    async def _in_turns(self, watchers: Iterable[_Watcher]) -> AsyncIterator[_Watcher]:
        """Yield those of ``watchers`` whose streams are open. Other work has turns in between."""
        for number, watcher in enumerate(watchers, 1):
            if watcher in self._all:
                yield watcher
            if number % _TURN == 0:
                await asyncio.sleep(0)

    def _running(self) -> Running:
        return self._engine.view.running_for(Operation.RENEW)


_NO_MESSAGE: Final = (None, b"")
_OTHER_ROOT: Final = RenewFirstError(
    "an update has changed the marble root", hint="renew the certificate with fresh evidence"
)
_ENDED: Final = RenewFirstError(
    "the certificate has ended", hint="renew the certificate with fresh evidence"
)
_RENEWED: Final = OutdatedConnectionError(
    "the workload has renewed its certificate with another key",
    hint="connect with the newest certificate of the workload",
)


def _spread(state: Running, milliseconds: int) -> int:
    return milliseconds * len(state.lineages)


def _remove(groups: dict[K, dict[_Watcher, None]], name: K, watcher: _Watcher) -> None:
    """Remove ``watcher`` from the group ``name`` of ``groups``. Remove the group if it is empty."""
    del groups[name][watcher]
    if not groups[name]:
        del groups[name]


class _ClosedFeed:
    """The feed of an ended stream, so that a scheduled message keeps no connection in memory."""

    def push(self, message: bytes) -> None:
        """Ignore ``message``: the stream has ended."""

    def end(self, error: KeyhouseError) -> None:
        """Ignore ``error``: the stream has ended already."""


_CLOSED: Final = _ClosedFeed()
