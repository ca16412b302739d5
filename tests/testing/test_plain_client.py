"""The tests' own HTTPS client leaves no socket behind where a server is killed as it connects."""

import gc
import socket
import struct

import pytest
from support.process.server import Client

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, 0 s


def test_a_connection_that_is_reset_before_the_handshake_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def connect_and_be_reset(
            address: tuple[str, int], timeout: float, source: None
        ) -> socket.socket:
            connected = connect(address, timeout, source)
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            accepted.close()  # on loopback the reset has arrived when this returns
            return connected

        monkeypatch.setattr(socket, "create_connection", connect_and_be_reset)
        client = Client(listener.getsockname()[1])
        with pytest.raises(ConnectionResetError):
            client.get("/api/v2/status")
        client.close()
        gc.collect()  # a socket that is still open warns here, and a warning is an error
