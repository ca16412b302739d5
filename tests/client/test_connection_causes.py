"""Why there is no connection: each cause has its words, in the SDK and in the launcher."""

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.peers.peer import certify

from keyhouse.base.connect_errors import Cause, cause_of
from keyhouse.base.errors import UnavailableError
from keyhouse.client import Timeouts, UnreachableError
from keyhouse.client.effects import HttpRequest, send
from keyhouse.client.http.connection import BlockingConnection
from keyhouse.client.http.connection_async import AsyncConnection
from keyhouse.client.http.pinned_tls import watching_context
from keyhouse.launcher import Request as Activation, activate, make_credentials, read_names, run
from keyhouse.wire.address import CLIENT_API, Address

LONG, SHORT = 30.0, 0.3  # seconds
CLIENT_PORT = "check the port: the Client API is usually on 4433"
WORKLOAD_PORT = "check the port: the workload API is usually on 2001"
CREDENTIALS = make_credentials(read_names("localhost"))


def blocking(where: Address, seconds: float) -> None:
    limits = Timeouts.of(seconds)
    with BlockingConnection(where, watching_context(lambda _leaf: None), limits) as connection:
        connection.run(send(HttpRequest("POST", "/api/v2/status")))


def on_a_loop(where: Address, seconds: float) -> None:
    async def connect() -> None:
        limits, context = Timeouts.of(seconds), watching_context(lambda _leaf: None)
        async with AsyncConnection(where, context, limits) as connection:
            await connection.run(send(HttpRequest("POST", "/api/v2/status")))

    asyncio.run(connect())


def launching(where: Address, seconds: float) -> None:
    run(activate(Activation(where, CREDENTIALS, b"", "web", uuid.uuid4()), None, seconds))


@pytest.fixture(params=[blocking, on_a_loop, launching], ids=lambda each: each.__name__)
def failure(request: pytest.FixtureRequest) -> Callable[..., Cause]:
    """Return a function that connects, and returns why that failed."""

    def connect(where: Address, seconds: float = LONG) -> Cause:
        with pytest.raises(UnavailableError) as caught:
            request.param(where, seconds)
        error, start = caught.value, f"cannot connect to {where}: "
        assert error.message.startswith(start)
        if isinstance(error, UnreachableError):
            assert (error.connected, error.sent) == (False, False)
        hint = error.hint.replace(WORKLOAD_PORT, CLIENT_PORT)
        return Cause(error.message.removeprefix(start), hint)

    return connect


class Peer(NamedTuple):
    """What a listener does with a connection, and what a client is told of it."""

    name: str
    speak: Callable[[socket.socket], None]
    problem: str
    hint: str = CLIENT_PORT


def answering(answer: bytes) -> Callable[[socket.socket], None]:
    def speak(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(answer)
        until_closed(connection)

    return speak


def until_closed(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while connection.recv(65_536):
            pass


def echo(connection: socket.socket) -> None:
    connection.sendall(connection.recv(65_536))
    until_closed(connection)


def nothing(connection: socket.socket) -> None:
    connection.recv(65_536)


PEERS = [
    Peer(
        "plain HTTP",
        answering(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
        "the peer answers in plain HTTP, not TLS",
        f"{CLIENT_PORT}; a proxy in between has to pass TLS through",
    ),
    Peer(
        "old plain HTTP",
        answering(b"HTTP/1.0 400 Bad Request\r\n\r\n"),
        "the peer answers in plain HTTP, not TLS",
        f"{CLIENT_PORT}; a proxy in between has to pass TLS through",
    ),
    Peer("SSH", answering(b"SSH-2.0-OpenSSH_9.2\r\n"), "the peer does not speak TLS"),
    Peer("mail", answering(b"220 mail.example.com ESMTP\r\n"), "the peer does not speak TLS"),
    Peer("echo", echo, "the peer does not speak TLS"),
    Peer(
        "alert",
        answering(bytes.fromhex("15030300020228")),
        "the peer refuses the TLS handshake (TLS alert: handshake failure)",
    ),
    Peer(
        "another protocol",
        answering(bytes.fromhex("15030300020278")),
        "the peer is not a {api} (TLS alert: no application protocol)",
        CLIENT_PORT + "; this peer may be the {other}",
    ),
    Peer(
        "closed",
        nothing,
        "the peer closes the connection during the TLS handshake",
        f"{CLIENT_PORT}, and that a proxy before the coordinator reaches the coordinator",
    ),
]


@contextlib.contextmanager
def listening(speak: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Give the address of a listener that speaks so on one connection."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            speak(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield Address(*listener.getsockname())
        thread.join(LONG)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peer_that_is_no_coordinator_is_told_by_what_it_says(
    peer: Peer, failure: Callable[..., Cause], request: pytest.FixtureRequest
) -> None:
    with listening(peer.speak) as where:
        found = failure(where)

    launcher = "launching" in request.node.callspec.id
    api, other = "Client API", "workload API, usually on port 2001"
    if launcher:
        api, other = "workload API", "Client API, usually on port 4433"
    assert found == Cause(peer.problem.format(api=api), peer.hint.format(other=other))


def test_name_that_nobody_has_is_not_found(failure: Callable[..., Cause]) -> None:
    assert failure(Address("nobody.invalid", 4433)) == Cause(
        "the host name is not found", "check its spelling, and the DNS of this machine"
    )


def test_port_where_nothing_listens_refuses(failure: Callable[..., Cause]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = Address(*listener.getsockname())

    assert failure(where) == Cause(
        "connection refused", f"check that the coordinator runs; {CLIENT_PORT}"
    )


def test_peer_that_accepts_and_says_nothing_times_out_in_tls(failure: Callable[..., Cause]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = failure(Address(*listener.getsockname()), SHORT)

    assert found == Cause("the TLS handshake timed out", CLIENT_PORT)


def test_peer_that_does_not_even_accept_times_out(failure: Callable[..., Cause]) -> None:
    """The queue of the listener is full: the kernel drops further attempts."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        where = Address(*listener.getsockname())
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003 it has no other name
            waiting.connect_ex((where.host, where.port))

        found = failure(where, SHORT)

    assert found == Cause(
        "timed out", "check the address and firewalls, and that the coordinator runs"
    )


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (socket.gaierror(socket.EAI_AGAIN, ""), "the name server does not answer"),
        (OSError(errno.ENETUNREACH, "secret"), "network is unreachable"),
        (OSError(errno.EHOSTUNREACH, "secret"), "no route to host"),
        (OSError("secret"), "no connection"),
    ],
    ids=repr,
)
def test_failure_of_the_network_is_told_in_the_systems_own_words(
    error: OSError, problem: str
) -> None:
    assert cause_of(error, CLIENT_API, in_tls=False).problem == problem


def test_unknown_failure_of_tls_shows_no_text_of_its_own() -> None:
    found = cause_of(ssl.SSLError(1, "secret"), CLIENT_API, in_tls=True)

    assert found == Cause("the TLS handshake failed", CLIENT_PORT)


def test_server_that_only_speaks_http2_is_no_client_api(tmp_path: Path) -> None:
    """TLS is fine, and what comes over it is not HTTP/1.1."""
    served = certify("Another")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(served.pem)
    key.write_bytes(served.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)

    def speak(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.sendall(bytes.fromhex("000000040000000000"))  # SETTINGS
            until_closed(tls)

    with listening(speak) as where, pytest.raises(UnreachableError) as caught:
        blocking(where, LONG)

    assert caught.value.message == f"{where} does not answer in HTTP/1.1"
    assert caught.value.connected
