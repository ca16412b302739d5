"""The call over HTTP/2: messages of an answer, flow control, statuses, and ends at any point."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.settings import SettingCodes
from hypothesis import given, strategies as st
from support.peers.mesh import AnyClient, coordinator_keys

from keyhouse.launcher.credentials import make_credentials, read_names
from keyhouse.launcher.grpc_call import (
    AnswerMalformedError,
    CallEndedError,
    CallFailedError,
    CallStatus,
    GrpcClient,
)
from keyhouse.launcher.tls import ClientContext
from keyhouse.wire.address import Address

KEYS = coordinator_keys(0)
CREDENTIALS = make_credentials(read_names("localhost"))
HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]

Answer = Callable[[H2Connection], None]


def message(content: bytes) -> bytes:
    return b"\0" + len(content).to_bytes(4, "big") + content


class Peer:
    """An HTTP/2 server that answers one call; ``request`` is the body, ``headers`` its headers."""

    def __init__(
        self,
        answer: Answer,
        *,
        window: int = 65_535,
        early: bool = False,
        cut: int | None = None,
    ) -> None:
        """With ``cut``, send that many bytes in all, after the request, and close."""
        self._answer, self._window, self._early, self._cut = answer, window, early, cut
        self.sent = 0
        self.headers: dict[str, str] = {}
        self.request = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        http2.initiate_connection()
        http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: self._window})
        while data := await reader.read(1000):
            for event in http2.receive_data(data):
                if isinstance(event, RequestReceived):
                    self.headers = {str(name): str(value) for name, value in event.headers or ()}
                elif isinstance(event, DataReceived):
                    self.request += event.data or b""
                    if not self._early:
                        http2.acknowledge_received_data(event.flow_controlled_length, 1)
                if isinstance(event, RequestReceived if self._early else StreamEnded):
                    self._answer(http2)
                    if self._cut is not None:
                        all_bytes = http2.data_to_send()
                        self.sent = len(all_bytes)
                        writer.write(all_bytes[: self._cut])
                        writer.close()
                        return
            if self._cut is None:
                writer.write(http2.data_to_send())
        writer.close()


@asynccontextmanager
async def called(peer: Peer, request: bytes = b"asked") -> AsyncIterator[GrpcClient]:
    context = AnyClient(KEYS.intermediate_key, KEYS.marble_root_cert)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        tls = ClientContext(CREDENTIALS, lambda _: None)
        async with asyncio.timeout(30), GrpcClient(address, tls) as call:
            await call.send("/rpc.Marble/Activate", request, 2.5)
            yield call


async def received(peer: Peer, request: bytes = b"asked") -> list[bytes]:
    found = []
    async with called(peer, request) as call:
        while (each := await call.receive()) is not None:
            found.append(each)
    return found


def answering(*parts: bytes, trailers: list[tuple[str, str]] | None = None) -> Answer:
    def answer(http2: H2Connection) -> None:
        http2.send_headers(1, HEADERS)
        for part in parts:
            http2.send_data(1, part)
        http2.send_headers(1, trailers or OK, end_stream=True)

    return answer


async def test_a_request_has_the_headers_of_grpc_and_one_message() -> None:
    peer = Peer(answering(message(b"answer")))
    assert await received(peer) == [b"answer"]
    assert peer.request == message(b"asked")
    assert peer.headers[":path"] == "/rpc.Marble/Activate"
    assert peer.headers["grpc-timeout"] == "2500m"
    assert (peer.headers["te"], peer.headers["content-type"]) == ("trailers", "application/grpc")


@pytest.mark.parametrize("window", [1, 100, 70_000])
async def test_a_request_larger_than_the_window_arrives_whole(window: int) -> None:
    request = bytes(range(256)) * (260 if window == 1 else 700)  # more than the first 65,535 bytes
    peer = Peer(answering(message(b"")), window=window)
    assert await received(peer, request) == [b""]
    assert peer.request == message(request)


async def test_an_answer_may_have_any_number_of_messages_in_any_pieces() -> None:
    messages = [b"first", b"", b"x" * 300]
    joined = b"".join(map(message, messages))
    assert await received(Peer(answering(joined))) == messages
    single = [joined[at : at + 1] for at in range(len(joined))]
    assert await received(Peer(answering(*single))) == messages
    assert await received(Peer(answering())) == []


async def test_after_a_canceled_call_the_next_call_uses_the_same_connection() -> None:
    streams = iter((1, 3))

    def answer(http2: H2Connection) -> None:
        stream = next(streams)
        http2.send_headers(stream, HEADERS)
        if stream == 1:  # never ends by itself
            http2.send_data(1, message(b"first") + message(b"late"))
            return
        http2.send_data(stream, message(b"second"))
        http2.send_headers(stream, OK, end_stream=True)

    async with called(Peer(answer)) as call:
        assert await call.receive() == b"first"
        call.cancel()
        assert await call.only("/rpc.Marble/Activate", b"again", 2.5) == b"second"
        call.cancel()  # has no effect after the end of a call
        assert await call.receive() is None


async def test_a_call_is_canceled_after_the_end_of_its_connection() -> None:
    def leave(http2: H2Connection) -> None:
        http2.close_connection()

    async with called(Peer(leave)) as call:
        with pytest.raises(CallEndedError):
            await call.receive()
        call.cancel()


async def test_messages_come_before_the_refusal_that_ends_them() -> None:
    refusal = [("grpc-status", "9"), ("grpc-message", "no: %C3%BC%0A")]
    async with called(Peer(answering(message(b"first"), trailers=refusal))) as call:
        assert await call.receive() == b"first"
        with pytest.raises(CallFailedError) as refused:
            await call.receive()
    assert refused.value.status is CallStatus.FAILED_PRECONDITION
    assert refused.value.message == "no: ü\n"


async def test_a_refusal_before_the_request_is_complete_ends_the_call() -> None:
    def refuse(http2: H2Connection) -> None:
        http2.send_headers(1, [*HEADERS, ("grpc-status", "14")], end_stream=True)

    peer = Peer(refuse, early=True)
    with pytest.raises(CallFailedError) as refused:
        await received(peer, bytes(200_000))
    assert refused.value.status is CallStatus.UNAVAILABLE


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ([(":status", "503")], CallStatus.UNAVAILABLE, "Received :status = '503'"),
        ([(":status", "418")], CallStatus.UNKNOWN, "Received :status = '418'"),
        ([(":status", "200")], CallStatus.UNKNOWN, "Missing content-type header"),
        (
            [(":status", "200"), ("content-type", "text/html")],
            CallStatus.UNKNOWN,
            "Invalid content-type: 'text/html'",
        ),
        ([*HEADERS, ("grpc-status", "x")], CallStatus.UNKNOWN, "Invalid grpc-status: 'x'"),
        ([*HEADERS, ("grpc-status", "17")], CallStatus.UNKNOWN, "Invalid grpc-status: '17'"),
        (HEADERS, CallStatus.UNKNOWN, "Missing grpc-status header"),
    ],
)
async def test_headers_without_a_valid_status_are_refusals(
    headers: list[tuple[str, str]], status: CallStatus, words: str
) -> None:
    peer = Peer(lambda http2: http2.send_headers(1, headers, end_stream=True))
    with pytest.raises(CallFailedError) as refused:
        await received(peer)
    assert (refused.value.status, refused.value.message) == (status, words)


@pytest.mark.parametrize(
    "part", [b"\1\0\0\0\1x", b"\0\0\0", message(b"cut off")[:-1]], ids=["compressed", "head", "cut"]
)
async def test_a_malformed_message_is_no_answer(part: bytes) -> None:
    with pytest.raises(AnswerMalformedError):
        await received(Peer(answering(part)))


@pytest.mark.parametrize(
    "end",
    [
        lambda http2: http2.reset_stream(1),
        lambda http2: http2.close_connection(),
    ],
    ids=["reset", "go away"],
)
async def test_an_end_before_the_status_is_an_error(end: Answer) -> None:
    def answer(http2: H2Connection) -> None:
        http2.send_headers(1, HEADERS)
        http2.send_data(1, message(b"first"))
        end(http2)

    with pytest.raises(CallEndedError):
        await received(Peer(answer))


async def test_an_answer_that_is_cut_at_any_byte_is_no_answer() -> None:
    whole = Peer(answering(message(b"answer")), cut=100_000)
    assert await received(whole) == [b"answer"]
    assert whole.sent > 50
    for cut in range(whole.sent):
        with pytest.raises(CallEndedError):
            await received(Peer(answering(message(b"answer")), cut=cut))


@given(damage=st.binary(min_size=1, max_size=60), at=st.integers(0, 120))
def test_a_damaged_answer_ends_in_a_known_error_or_is_read(damage: bytes, at: int) -> None:
    def answer(http2: H2Connection) -> None:
        answering(message(b"answer"))(http2)
        sent = http2.data_to_send()
        http2.clear_outbound_data_buffer()
        http2._data_to_send += sent[:at] + damage + sent[at + len(damage) :]

    with suppress(CallEndedError, CallFailedError, AnswerMalformedError):
        asyncio.run(received(Peer(answer, cut=100_000)))
