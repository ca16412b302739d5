"""Live pages: a poll for each deployment, and a stream of events for each open page.

A stream (server-sent events, HTML standard section 9.2) carries only numbers of versions. A page
requests its new content after a new number. So a slow browser costs nothing: the console stores a
single number for each deployment, and a stream sends the newest number only.

A browser opens at most 6 connections to the console, and a stream occupies a connection. So the
number of streams is limited. A page beyond this limit ends the oldest stream.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from typing import Final

MOST_STREAMS: Final = 4
"""Open streams. Two of the 6 connections of a browser stay free for requests."""

PERIOD: Final = 2.0
"""Seconds between two polls."""

RECOVERY_PERIOD: Final = 5.0
"""Seconds between two polls in recovery mode: each poll costs the coordinator a quote."""

# Seconds after which a stream sends a sign of life. A page notices a lost connection without it.
_BEAT: Final = 10.0

Poll = Callable[[frozenset[str]], Awaitable[object]]
"""Returns a value that changes with the pages. The argument has the sections of open pages."""


class Live:
    """The version of a deployment's pages: a number that rises after each change.

    ``poll`` finds changes, every ``period`` seconds while a page is open.
    """

    def __init__(self, poll: Poll) -> None:
        self.version = 0
        self.period = PERIOD
        self._poll = poll
        self._seen: object = None
        self._sections: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watched(self, section: str) -> Iterator[asyncio.Task[None]]:
        """Poll the deployment during the block, for an open page of ``section``; yield the task.

        The polling task ends during the block only if a poll raises an unexpected error.
        """
        self._sections[section] += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._run())
        try:
            yield self._polling
        finally:
            self._sections -= Counter([section])
            if not self._sections and self._polling is not None:
                self._polling.cancel()
                self._polling = None

    async def wait(self, known: int) -> None:
        """Wait until the version differs from ``known``."""
        while self.version == known:
            await self._changed.wait()

    async def _run(self) -> None:
        while True:
            found = await self._poll(frozenset(self._sections))
            if found != self._seen:
                self._seen = found
                self.version += 1
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(self.period)


class Streams:
    """The open streams of events to browser pages, oldest first."""

    def __init__(self) -> None:
        self._open: list[asyncio.Future[str]] = []

    async def events(
        self, live: Live, section: str, known: int, *, is_open: Callable[[], bool]
    ) -> AsyncGenerator[str, None]:
        """Yield the events of ``live`` for a page of ``section`` with the version ``known``.

        ``is_open`` returns whether the browser's session is open. The last event has the reason for
        the end of the stream: ``idle`` (the session was not used), ``locked`` (by the user),
        ``replaced`` (a newer link was opened), ``ended`` (the console ends), or ``displaced`` (too
        many newer streams).
        """
        end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open.append(end)
        for each in self._open[:-MOST_STREAMS]:
            self._end(each, "displaced")
        try:
            with live.watched(section) as polling:
                yield ": open\n\n"
                while is_open() and not end.done():
                    if live.version != known:
                        known = live.version
                        yield f"data: {known}\n\n"
                    if not await _happens(live.wait(known), end, polling):
                        yield "event: beat\ndata:\n\n"
            yield f"event: over\ndata: {end.result() if end.done() else 'idle'}\n\n"
        finally:
            self._end(end, "")

    def end(self, reason: str) -> None:
        """End all streams with ``reason``, a word as in the last event of ``events``."""
        for each in tuple(self._open):
            self._end(each, reason)

    def _end(self, stream: asyncio.Future[str], reason: str) -> None:
        if stream in self._open:
            self._open.remove(stream)
            stream.set_result(reason)


async def _happens(
    change: Coroutine[None, None, None], end: asyncio.Future[str], polling: asyncio.Task[None]
) -> bool:
    """Wait up to 10 seconds; return True after a new version, or the end of a stream.

    ``change`` waits for the version, and ``end`` is the end of the stream. Raises the error of the
    polling task ``polling``.
    """
    waiting = asyncio.create_task(change)
    try:
        done, _ = await asyncio.wait(
            (waiting, end, polling), timeout=_BEAT, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        waiting.cancel()
    if polling in done:
        polling.result()
    return bool(done)
