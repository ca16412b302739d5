"""SIGTERM and SIGINT: what was sent before is answered, what was answered is there, exit code 0."""

import base64
import json
import signal
import socket
import ssl
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from support.process.server import PATIENCE, Client, Server
from support.samples.deployment import manifest, user

pytestmark = pytest.mark.acceptance

WRITERS = 12


def send_upload(client: Client, name: str, value: bytes) -> None:
    """Send a whole request; don't wait for the answer."""
    body = json.dumps({"secrets": {name: {"key": base64.b64encode(value).decode()}}})
    client.connection.request("POST", "/api/v2/secrets", body=body.encode())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_what_was_sent_before_the_signal_is_answered_and_kept(
    tmp_path: Path, number: signal.Signals
) -> None:
    server = Server(tmp_path / "data")
    names = [f"key{index}" for index in range(WRITERS)]
    with server, server.client() as anyone:
        assert anyone.set_manifest(manifest(WRITERS)).status == 200
        server.stop()
    for turn in range(1, 4):
        with ExitStack() as stack:
            server.start()
            clients = [stack.enter_context(server.client(user("writer"))) for _ in names]
            for client in clients:
                assert client.get("/api/v2/status").status == 200  # connected, and known
            for client, name in zip(clients, names, strict=True):
                send_upload(client, name, turn.to_bytes(16))
            assert server.process is not None
            server.process.send_signal(number)
            answers = [client.connection.getresponse() for client in clients]
            assert [answer.status for answer in answers] == [200] * WRITERS
            assert server.process.wait(PATIENCE) == 0
    with server, server.client(user("writer")) as writer:
        assert set(writer.secrets(names).values()) == {(3).to_bytes(16)}
    assert "Traceback" not in server.logged()


def test_a_manifest_that_was_sent_before_the_signal_is_set(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    raw = base64.b64encode(manifest()).decode()
    with server, server.client() as anyone:
        assert anyone.get("/api/v2/status").data["code"] == 2
        body = json.dumps({"manifest": raw}).encode()
        anyone.connection.request("POST", "/api/v2/manifest", body=body)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        status = anyone.connection.getresponse().status
        assert server.process.wait(PATIENCE) == 0
    with server, server.client() as anyone:
        assert (status, anyone.get("/api/v2/status").data["code"]) == (200, 3)


def test_more_signals_change_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        send_upload(writer, "key0", bytes(16))
        assert server.process is not None
        deadline = time.monotonic() + PATIENCE
        while server.process.poll() is None:
            assert time.monotonic() < deadline
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(ProcessLookupError):
                    server.process.send_signal(number)
            time.sleep(0.001)  # a foreign process: there is no event to wait for
        assert server.process.returncode == 0
        assert writer.connection.getresponse().status == 200
    with server:
        pass
    assert [line for line in server.logged().splitlines() if not line.startswith("{")] == []


def test_connections_that_ask_for_nothing_do_not_hold_the_process_up(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with ExitStack() as stack:
        stack.enter_context(server)
        for index in range(60):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            if index % 3:  # every third says nothing at all
                connection = stack.enter_context(context.wrap_socket(raw))
                if index % 3 == 2:
                    connection.sendall(b"GET /api/v2/status HTTP/1.1\r\nHost: a")
        assert server.stop() == 0
    assert "connections aborted" not in server.logged()  # said if it has waited too long


def test_a_signal_during_the_start_stops_it_cleanly(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as anyone:
        assert anyone.set_manifest(manifest()).status == 200
    for _ in range(3):
        with server:
            assert server.stop() == 0  # at once after it began to listen
    assert "error" not in server.logged()
