"""Streams of live pages: one poll for all of them, few streams, and reasons for their end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from keyhouse.console.live import MOST_STREAMS, Live, Streams


class Source:
    """A deployment with a value. Counts the polls, and allows the next poll on request."""

    def __init__(self) -> None:
        self.value: object = "first"
        self.polls: list[frozenset[str]] = []
        self.allowed = asyncio.Semaphore(1)
        self.failure: Exception | None = None

    async def poll(self, sections: frozenset[str]) -> object:
        await self.allowed.acquire()
        self.polls.append(sections)
        if self.failure is not None:
            raise self.failure
        return self.value


def events(streams: Streams, live: Live, section: str = "trust") -> AsyncIterator[str]:
    return streams.events(live, section, -1, is_open=lambda: True)


async def data(stream: AsyncIterator[str]) -> str:
    """Return the next version, without signs of life."""
    async for each in stream:
        if each.startswith("data: "):
            return each.removeprefix("data: ").strip()
    raise AssertionError("the stream has ended")


def test_all_streams_share_a_poll_and_get_the_newest_version() -> None:
    async def run() -> None:
        source, streams = Source(), Streams()
        live = Live(source.poll)
        live.period = 0.0
        first, second = events(streams, live), events(streams, live, "workloads")
        assert [await data(first), await data(second)] == ["0", "0"]
        assert [await data(first), await data(second)] == ["1", "1"]
        assert source.polls == [frozenset({"trust", "workloads"})]
        source.value = "second"
        source.allowed.release()
        assert [await data(first), await data(second)] == ["2", "2"]
        # The reader of ``first`` is slow. The versions in between cost nothing.
        for value in ("third", "fourth"):
            source.value = value
            source.allowed.release()
            await data(second)
        assert await data(first) == "4"
        assert len(source.polls) == 4

    asyncio.run(run())


def test_the_oldest_stream_ends_beyond_the_limit() -> None:
    async def run() -> None:
        source, streams = Source(), Streams()
        live = Live(source.poll)
        opened = [events(streams, live) for _ in range(MOST_STREAMS + 1)]
        for each in opened:
            assert await anext(each) == ": open\n\n"
        rest = [each async for each in opened[0]]
        assert rest[-1] == "event: over\ndata: displaced\n\n"
        streams.end("ended")
        for each in opened[1:]:
            assert [event async for event in each][-1] == "event: over\ndata: ended\n\n"

    asyncio.run(run())


def test_a_stream_without_a_session_ends() -> None:
    async def run() -> None:
        stream = Streams().events(Live(Source().poll), "", 0, is_open=lambda: False)
        assert [each async for each in stream][-1] == "event: over\ndata: idle\n\n"

    asyncio.run(run())


def test_the_poll_ends_with_the_last_stream_and_begins_again() -> None:
    async def run() -> None:
        source, streams = Source(), Streams()
        live = Live(source.poll)
        first = streams.events(live, "", -1, is_open=lambda: True)
        await data(first)
        await data(first)
        await first.aclose()
        await asyncio.gather(
            *(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True
        )
        source.value = "second"
        source.allowed.release()
        assert await data(events(streams, live)) == "1"

    asyncio.run(run())


def test_an_unexpected_error_of_the_poll_ends_the_stream() -> None:
    async def run() -> None:
        source, streams = Source(), Streams()
        source.failure = ValueError("unexpected")
        stream = events(streams, Live(source.poll))
        with pytest.raises(ValueError, match="unexpected"):
            [each async for each in stream]

    asyncio.run(run())
