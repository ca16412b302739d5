"""HTTP without TLS, and the counts of what is answered: a real listener on loopback."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.peers.https import ECHO_LIMIT, Probe

from keyhouse.server.http.counts import UNKNOWN, RequestCounts
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.plain_transport import MOST_KEPT, PLAINTEXT

PATHS = ("/status", "/echo", "/wait", "/big", "/denied", "/broken", "/fail-later")
Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Plain:
    """A listener without TLS, what it counts, and its application."""

    def __init__(self, limits: Limits | None) -> None:
        self.probe = Probe()
        self.counts = RequestCounts(PATHS)
        self.listener = Listener(self.probe, PLAINTEXT, limits, self.counts)

    async def connect(self) -> Wire:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def exchange(self, request: bytes, *, end: bool = False) -> bytes:
        """Send ``request``, and return all that comes until the server closes."""
        reader, writer = await self.connect()
        writer.write(request)
        if end:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer


@asynccontextmanager
async def plain(limits: Limits | None = None) -> AsyncIterator[Plain]:
    server = Plain(limits)
    await server.listener.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.listener.stop(1.0)


async def happened(event: threading.Event) -> None:
    """Wait for what the application tells."""
    assert await asyncio.to_thread(event.wait, 20)


def request(method: str, target: str, *lines: str, body: bytes = b"", last: bool = True) -> bytes:
    head = [f"{method} {target} HTTP/1.1", "Host: a", *lines, *(["Connection: close"] * last)]
    return "\r\n".join([*head, "", ""]).encode() + body


async def test_request_is_answered_without_tls_and_nobody_is_known() -> None:
    async with plain() as server:
        answer = await server.exchange(request("GET", "/status"))

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"identity": null' in answer


async def test_connection_is_kept_and_pipelined_requests_are_answered_in_order() -> None:
    async with plain() as server:
        both = request("GET", "/status?1", last=False) + request("GET", "/status?2")
        answer = await server.exchange(both)

    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b'"query": "1"') < answer.index(b'"query": "2"')


async def test_client_that_still_sends_gets_the_refusal_and_not_a_reset() -> None:
    async with plain() as server:
        length = 3 * ECHO_LIMIT
        head = request("POST", "/echo", f"Content-Length: {length}", body=bytes(length))
        answer = await server.exchange(head)

    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
async def test_answer_of_any_size_arrives_whole(size: int) -> None:
    async with plain() as server:
        answer = await server.exchange(request("GET", f"/big?{size}"))

    assert answer.partition(b"\r\n\r\n")[2] == b"x" * size


async def test_client_that_ends_its_stream_early_ends_the_connection() -> None:
    async with plain() as server:
        assert await server.exchange(b"", end=True) == b""
        assert await server.exchange(b"GET /st", end=True) == b""


async def test_tls_hello_gets_an_error_in_words_or_a_close() -> None:
    async with plain() as server:
        answer = await server.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500))

    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_connection_over_the_limit_takes_the_place_of_the_oldest_idle_one() -> None:
    async with plain(Limits(connections=2)) as server:
        kept = [await server.connect() for _ in range(2)]
        assert (await server.exchange(request("GET", "/big?1"))).startswith(b"HTTP/1.1 200 OK")
        assert await kept[0][0].read() == b""
        assert server.listener.turned_away == 1
        for _, writer in kept:
            writer.close()


async def test_stop_answers_what_was_begun() -> None:
    server = Plain(None)
    await server.listener.start("127.0.0.1", 0)
    asking = asyncio.create_task(server.exchange(request("GET", "/wait")))
    await happened(server.probe.waiting)
    stopping = asyncio.create_task(server.listener.stop(20))
    await asyncio.sleep(0)
    server.probe.gate.set()
    await stopping

    assert (await asking).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        (request("GET", "/status"), ("/status", "200", "get")),
        (request("HEAD", "/status"), ("/status", "200", "head")),
        (request("GET", "/status/../../x"), (UNKNOWN, "404", "get")),
        (request("BREW", "/status"), ("/status", "200", UNKNOWN)),
        (request("GET", "/denied"), ("/denied", "403", "get")),
        (request("GET", "/broken"), ("/broken", "500", "get")),
        (request("POST", "/echo", "Content-Length: 200000"), ("/echo", "413", "post")),
        (request("CONNECT", "/status"), (UNKNOWN, "501", UNKNOWN)),
        (b"nonsense\r\n\r\n", (UNKNOWN, "400", UNKNOWN)),
        (request("GET", "/status", "X: " + "x" * 40_000), (UNKNOWN, "431", UNKNOWN)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_each_answer_is_counted_once(sent: bytes, counted: tuple[str, str, str]) -> None:
    async with plain() as server:
        await server.exchange(sent)

    assert server.counts.answers() == {counted: 1}


@pytest.mark.parametrize(
    ("lines", "body", "size"),
    [
        ((), b"", 0),
        (("Content-Length: 5",), b"12345", 5),
        (("Transfer-Encoding: chunked",), b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 5),
    ],
    ids=["none", "sized", "chunked"],
)
async def test_size_of_a_request_is_its_head_and_body(
    lines: tuple[str, ...], body: bytes, size: int
) -> None:
    head = request("POST", "/echo", *lines)
    async with plain() as server:
        answer = await server.exchange(head + body)

    (came,) = server.counts.request_sizes().values()
    (went,) = server.counts.response_sizes().values()
    assert came.total == len(head) + size
    assert went.total == len(answer.partition(b"\r\n\r\n")[2])


async def test_request_in_flight_is_seen_until_it_is_answered() -> None:
    async with plain() as server:
        asking = asyncio.create_task(server.exchange(request("GET", "/wait")))
        await happened(server.probe.waiting)
        during = server.listener.in_flight()
        server.probe.gate.set()
        await asking

        assert during == {"/wait": 1}
        assert not server.listener.in_flight()
        assert len(server.counts.durations()) == 1


async def test_requests_that_came_while_one_was_answered_are_answered_after_it() -> None:
    more = [request("GET", f"/status?{number}", last=False) for number in range(3000)]
    async with plain() as server:
        sent = [request("GET", "/wait", last=False), *more, request("GET", "/status?last")]
        asking = asyncio.create_task(server.exchange(b"".join(sent)))
        await happened(server.probe.waiting)
        server.probe.gate.set()
        answer = await asking

    assert len(b"".join(more)) > MOST_KEPT
    assert answer.count(b"HTTP/1.1 200 OK") == 3002
    assert answer.index(b'"/wait"') < answer.index(b'"query": "0"')
    assert answer.index(b'"query": "2999"') < answer.index(b'"query": "last"')


async def test_client_that_left_before_its_answer_is_not_counted() -> None:
    async with plain() as server:
        _, writer = await server.connect()
        writer.write(request("GET", "/wait"))
        await happened(server.probe.waiting)
        writer.transport.abort()
        await happened(server.probe.cancelled)

        assert not server.counts.answers()
        assert not server.listener.in_flight()
