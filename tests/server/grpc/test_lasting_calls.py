"""Calls that last: messages, slow clients, silent clients, and floods of anonymous connections."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from h2.events import DataReceived, PingReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes
from support.peers.listener import RunningWorkloads, workloads
from support.peers.workloads import Http2Wire, framed

from keyhouse.base.errors import ConflictError
from keyhouse.server.grpc.call import CallClient, Lasting
from keyhouse.server.grpc.connection import GrpcConnection
from keyhouse.server.net.feed import Feed
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse.server.net.limits import WorkloadLimits

LAST = "/a.Service/Last"


class Feeds:
    """A handler of calls that last, with the feeds of the open calls."""

    def __init__(self, first: bytes = b"first") -> None:
        self.first = first
        self.open: list[Feed] = []

    async def handle(self, message: bytes, caller: CallClient) -> Lasting:
        del message, caller
        return Lasting(self.first, self.begin)

    def begin(self, feed: Feed) -> Callable[[], None]:
        self.open.append(feed)
        return lambda: self.open.remove(feed)


class Watching:
    """A listener with a method that lasts."""

    def __init__(self, server: RunningWorkloads, first: bytes) -> None:
        self.server = server
        self.feeds = Feeds(first)
        server.listener.service.methods[LAST] = self.feeds.handle
        self.stack = ExitStack()

    def client(self, window: int | None = None) -> "Client":
        """Return a client of one lasting call, until the end of the listener."""
        client = Client(self.server, window)
        self.stack.enter_context(client.wire)
        return client

    def push(self, message: bytes) -> None:
        self.do(lambda feed: feed.push(message))

    def end(self) -> None:
        error = ConflictError("no more", hint="go")
        self.do(lambda feed: feed.end(error))

    def do(self, act: Callable[[Feed], None]) -> None:
        def on_loop() -> None:
            for feed in tuple(self.feeds.open):
                act(feed)

        self.server.do(on_loop)

    def wait_for(self, count: int) -> None:
        self.server.do_until(lambda: len(self.feeds.open) == count)


@contextmanager
def watching(
    folder: Path, limits: WorkloadLimits | None = None, first: bytes = b"first"
) -> Iterator[Watching]:
    with workloads(folder, limits) as server:
        found = Watching(server, first)
        with found.stack:
            yield found


class Client:
    """A client of one lasting call."""

    def __init__(self, server: RunningWorkloads, window: int | None = None) -> None:
        self.wire = Http2Wire(server.port).begin()
        if window is not None:
            self.wire.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.stream = self.wire.whole(framed(b""), path=LAST)
        self.wire.flush()
        self.data = b""
        self.trailers: dict[str, str] = {}

    def read(self, count: int) -> bytes:
        """Return the messages so far, at least ``count`` bytes."""
        while len(self.data) < count:
            self.step()
        return self.data

    def end(self) -> dict[str, str]:
        """Return the trailers."""
        while not self.trailers:
            self.step()
        return self.trailers

    def step(self) -> list[Any]:
        events = self.wire._events()
        for event in events:
            match event:
                case DataReceived():
                    self.data += event.data or b""
                case TrailersReceived():
                    self.trailers = {str(n): str(v) for n, v in event.headers or ()}
                case StreamReset() | StreamEnded() if not self.trailers:
                    self.trailers = {"reset": "yes"}
                case _:
                    pass
        return events


FIRST = framed(b"first")


def test_messages_arrive_in_order_and_the_end_has_a_status(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        client = server.client()
        assert client.read(len(FIRST)) == FIRST
        sent = FIRST
        for number in range(100):
            server.push(b"%d" % number)
            sent += framed(b"%d" % number)
            assert client.read(len(sent)) == sent
        server.end()
        end = client.end()
        assert (end["grpc-status"], end["keyhouse-code"]) == ("9", "conflict")
        assert not server.feeds.open
        # The connection serves on, and all that the call held is free.
        service = server.server.listener.service
        held = [pool.held for pool in (service.streams, service.calls, service.memory)]
        assert [*held, service.answers.held] == [0, 0, 0, 0]
        assert service.protected == 0


def test_a_slow_client_receives_the_newest_message_alone(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        client = server.client(window=0)
        server.wait_for(1)
        for number in range(50):
            server.push(b"%d" % number)
        server.end()
        assert server.server.listener.service.answers.held == len(FIRST)
        client.wire.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
        client.wire.flush()
        assert client.end()["grpc-status"] == "9"
        assert client.data == FIRST + framed(b"49")


def test_a_client_that_reads_nothing_is_reset(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        client = server.client(window=0)
        server.wait_for(1)
        server.server.pass_time(WorkloadLimits().answer_timeout + 2)
        assert client.end() == {"reset": "yes"}
        assert not server.feeds.open
        assert server.server.listener.service.answers.held == 0


def test_a_quiet_call_outlives_the_idle_time_and_a_silent_client_is_probed(tmp_path: Path) -> None:
    limits = WorkloadLimits()
    with watching(tmp_path) as server:
        client = server.client()
        client.read(len(FIRST))
        server.server.pass_time(limits.idle_timeout + 1)
        server.push(b"on")
        client.read(len(FIRST) + 7)
        server.server.pass_time(limits.silence + 2)
        while not any(isinstance(each, PingReceived) for each in client.step()):
            pass
        # The answer to the PING counts: the connection stays.
        server.push(b"on")
        client.read(len(FIRST) + 14)
        assert len(server.feeds.open) == 1


def test_a_dead_client_is_noticed(tmp_path: Path) -> None:
    limits = WorkloadLimits()
    with watching(tmp_path) as server:
        client = server.client()
        client.read(len(FIRST))
        server.server.pass_time(limits.silence + 2)
        server.server.pass_time(limits.silence + limits.answer_timeout + 2)
        server.wait_for(0)
        assert server.server.listener.service.protected == 0


def test_the_deadline_of_the_client_ends_the_call(tmp_path: Path) -> None:
    with watching(tmp_path) as server, Http2Wire(server.server.port) as wire:
        stream = wire.begin().whole(framed(b""), ("grpc-timeout", "60S"), path=LAST)
        wire.flush()
        server.wait_for(1)
        server.push(b"on")
        server.server.pass_time(62)
        assert wire.answer(stream).status == GrpcStatus.DEADLINE_EXCEEDED
        assert not server.feeds.open


def test_a_connection_that_the_server_ends_tells_its_lasting_call(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        client = server.client()
        client.read(len(FIRST))

        def close() -> None:
            for connection in server.server.listener.connections.all():
                connection.close()

        server.server.do(close)
        end = client.end()
        assert (end["grpc-status"], end["keyhouse-code"]) == ("14", "unavailable")
        assert client.wire.goodbye() == 0


def test_anonymous_connections_never_evict_a_lasting_call(tmp_path: Path) -> None:
    """Review of the design, M1: they have a limit of their own."""
    limits = WorkloadLimits(connections=4, watches=3)
    with watching(tmp_path, limits) as server, ExitStack() as stack:
        clients = [server.client() for _ in range(3)]
        for client in clients:
            client.read(len(FIRST))
        server.wait_for(3)
        connections = server.server.listener.connections
        for _ in range(40):
            stack.enter_context(Http2Wire(server.server.port)).begin()
        server.server.do_until(lambda: server.server.listener.turned_away == 36)
        assert (connections.exposed, connections.protected) == (4, 3)
        server.push(b"on")
        for client in clients:
            client.read(len(FIRST) + 7)
        # The limit of lasting calls is the limit of these connections, and ends no other call.
        more = server.client()
        refused = more.wire.answer(more.stream).headers
        assert (refused["grpc-status"], refused["keyhouse-code"]) == ("14", "watches-full")
        assert len(server.feeds.open) == 3
        # A connection whose call has ended counts as any connection again.
        server.end()
        server.server.do_until(lambda: connections.protected == 0)
        assert connections.exposed <= 4


def test_two_lasting_calls_of_a_connection_protect_it_once(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        client = server.client()
        client.read(len(FIRST))
        second = client.wire.whole(framed(b""), path=LAST)
        client.wire.flush()
        server.wait_for(2)
        connections = server.server.listener.connections
        assert connections.protected == 1
        client.wire.h2.reset_stream(second)
        client.wire.flush()
        server.wait_for(1)
        (connection,) = connections.all()
        assert isinstance(connection, GrpcConnection)
        assert connections.protected == 1
        client.wire.h2.reset_stream(client.stream)
        client.wire.flush()
        server.wait_for(0)
        assert connections.protected == 0


@pytest.mark.parametrize("size", [0, 100_000])
def test_a_message_may_be_empty_or_large(tmp_path: Path, size: int) -> None:
    with watching(tmp_path, first=bytes(size)) as server:
        client = server.client()
        assert client.read(size + 5) == framed(bytes(size))
        server.push(bytes(size))
        assert client.read(2 * (size + 5)) == framed(bytes(size)) * 2
