"""The proxies between replicas and databases fail as they are ordered to."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest
from support.replicas.proxies import Address, Proxies

SYN_SENT = 2  # linux/include/net/tcp_states.h


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(100):
            self.request.sendall(data)


@pytest.fixture(name="echo")
def _echo() -> Iterator[Address]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield ("127.0.0.1", server.server_address[1])
        server.shutdown()


@pytest.fixture(name="proxies")
def _proxies(echo: Address) -> Iterator[Proxies]:
    with Proxies.running([echo, echo]) as proxies:
        yield proxies


def connected(proxies: Proxies, number: int = 0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxies.ports[number]), timeout=20)


def echoed(connection: socket.socket, data: bytes = b"x") -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def arrived(connection: socket.socket) -> bytes:
    """Return what can be read at once."""
    connection.settimeout(0)
    try:
        return connection.recv(100)
    except BlockingIOError:
        return b""
    finally:
        connection.settimeout(20)


def test_bytes_pass_in_both_directions(proxies: Proxies) -> None:
    with connected(proxies) as connection:
        assert echoed(connection) == b"x"


@pytest.mark.parametrize("directions", [("up",), ("down",), ("up", "down")])
def test_dropped_bytes_arrive_when_the_fault_ends(
    proxies: Proxies, directions: tuple[str, ...]
) -> None:
    with connected(proxies) as connection, connected(proxies, 1) as other:
        assert echoed(connection) == b"x"
        proxies.order(0, "drop", directions=directions)
        connection.sendall(b"y")
        assert echoed(other) == b"x"  # the other proxy is not disturbed
        assert arrived(connection) == b""
        proxies.order(0, "pass")
        assert connection.recv(100) == b"y"


def test_delayed_bytes_arrive_in_order(proxies: Proxies) -> None:
    with connected(proxies) as connection:
        proxies.order(0, "delay", seconds=0.01)
        connection.sendall(b"1")
        connection.sendall(b"2")
        proxies.order(0, "pass")
        assert echoed(connection, b"3") in {b"1", b"12", b"123"}


def test_connections_are_reset_and_new_ones_pass(proxies: Proxies) -> None:
    with connected(proxies) as connection:
        assert echoed(connection) == b"x"
        proxies.order(0, "reset")
        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    with connected(proxies) as connection:
        assert echoed(connection) == b"x"


def test_refused_connections_pass_again_when_the_fault_ends(proxies: Proxies) -> None:
    proxies.order(0, "refuse")
    with pytest.raises(ConnectionRefusedError):
        connected(proxies)
    proxies.order(0, "pass")
    with connected(proxies) as connection:
        assert echoed(connection) == b"x"


def test_a_syn_is_not_answered_until_the_fault_ends(proxies: Proxies) -> None:
    proxies.order(0, "ignore")
    with socket.socket() as connection, connected(proxies, 1) as other:
        connection.settimeout(0)
        connection.connect_ex(("127.0.0.1", proxies.ports[0]))
        assert echoed(other) == b"x"
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == SYN_SENT
    proxies.order(0, "pass")
    with connected(proxies) as connection:
        assert echoed(connection) == b"x"


def test_half_of_a_connection_is_closed_towards_the_server(proxies: Proxies) -> None:
    with connected(proxies) as connection:
        assert echoed(connection) == b"x"
        proxies.order(0, "half-close")
        assert connection.recv(100) == b""  # the server has seen the end, and closes


def test_new_connections_are_led_elsewhere(proxies: Proxies) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Echo) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        proxies.lead(0, ("127.0.0.1", other.server_address[1]))
        with connected(proxies) as connection:
            assert echoed(connection) == b"x"
        thread.join()
