"""Bodies beyond their limits: refused as early as can be, the coordinator as before."""

import json
import socket
import ssl
from contextlib import suppress

import pytest
from support.peers.answers import as_writer, b64, checked, observe
from support.process.server import Reply, Server
from support.samples.deployment import user

from keyhouse.coordinator import Phase
from keyhouse.server.client_api import ROUTES

pytestmark = pytest.mark.acceptance

MIB = 1024 * 1024
BODY = 16 * MIB * 4 // 3 + MIB  # what the reference says: 23,418,197 bytes


def _secured(server: Server) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    return context.wrap_socket(plain, suppress_ragged_eofs=False)


def _answer(connection: ssl.SSLSocket) -> Reply:
    """Return the only answer of a connection that the server then closes properly."""
    received = b""
    while piece := connection.recv(65536):  # an end without close_notify raises
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body)
    return Reply(int(first.split()[1]), headers, body)


def _refused_as_too_long(reply: Reply, limit: int) -> None:
    assert reply.status == 413
    assert checked(reply).envelope == {
        "status": "fail",
        "data": {"body": f"the body is longer than {limit} bytes"},
        "message": f"the body is longer than {limit} bytes (send a smaller body)",
    }
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("phase", "path", "limit"),
    [
        (Phase.ACCEPTING_MANIFEST, "/api/v2/manifest", BODY),
        (Phase.RECOVERY, "/api/v2/manifest", BODY),
        (Phase.RECOVERY, "/api/v2/recover", 20_480),
        (Phase.RUNNING, "/api/v2/sign-quote", MIB),
    ],
)
@pytest.mark.parametrize("excess", [1, 10**14])
def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(
    servers: dict[Phase, Server], phase: Phase, path: str, limit: int, excess: int
) -> None:
    with _secured(servers[phase]) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {limit + excess}\r\n"
        connection.sendall(head.encode() + b"Expect: 100-continue\r\n\r\n")
        _refused_as_too_long(_answer(connection), limit)


@pytest.mark.parametrize(
    ("phase", "path", "limit"),
    [
        (Phase.ACCEPTING_MANIFEST, "/api/v2/manifest", BODY),
        (Phase.RECOVERY, "/api/v2/recover", 20_480),
    ],
)
def test_chunks_beyond_the_limit_are_refused_while_they_come(
    servers: dict[Phase, Server], phase: Phase, path: str, limit: int
) -> None:
    with _secured(servers[phase]) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        size = min(limit, MIB)
        chunk = b"%x\r\n%b\r\n" % (size, b" " * size)
        sent = 0
        with suppress(ConnectionError, ssl.SSLError):  # it may be closed before all is sent
            while sent <= limit:
                connection.sendall(chunk)
                sent += size
        _refused_as_too_long(_answer(connection), limit)


def test_a_body_of_an_anonymous_client_is_not_waited_for(running: Server) -> None:
    with _secured(running) as connection:
        connection.sendall(
            b"POST /api/v2/secrets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 23000000\r\n\r\n"
        )
        assert checked(_answer(connection)).status == 401


def test_a_manifest_beyond_16_mib_is_refused_after_decoding(servers: dict[Phase, Server]) -> None:
    body = json.dumps({"manifest": b64(bytes(16 * MIB + 1))}).encode()
    assert len(body) < BODY
    with servers[Phase.ACCEPTING_MANIFEST].client() as client:
        reply = checked(client.call("POST", "/api/v2/manifest", body))
        assert (reply.status, reply.envelope) == (
            413,
            {
                "status": "fail",
                "data": {"body": "is too large after base64 decoding"},
                "message": "the content has 16777217 bytes, at most 16777216 are accepted (make the"
                " manifest smaller, or upload the secrets in several requests)",
            },
        )
        assert client.get("/api/v2/status").data["status"] == 2


def test_secrets_beyond_16_mib_together_are_refused(running: Server) -> None:
    half = b64(bytes(8 * MIB))
    uploads = {"note": {"key": half}, "key0": {"cert": half, "public": "AA=="}}
    with as_writer(running) as client:
        before = observe(client)
        reply = checked(client.post("/api/v2/secrets", {"secrets": uploads}))
        assert reply.status == 413
        assert reply.envelope["message"].startswith("the content has 16777217 bytes")
        assert observe(client) == before


def test_a_request_line_and_headers_beyond_their_limits_are_refused(running: Server) -> None:
    with running.client(user("writer")) as client:
        long = checked(client.get("/api/v2/secrets?s=" + "x" * 17_000))
        assert (long.status, long.envelope) == (
            414,
            {
                "status": "fail",
                "data": {"query": "the request line is longer than 16384 bytes"},
                "message": "the request line is longer than 16384 bytes (shorten the query)",
            },
        )
        client.connection.request("GET", "/api/v2/status", headers={"x": "y" * 33_000})
        answer = client.connection.getresponse()
        assert answer.status == 431
        assert json.loads(answer.read())["data"] == {
            "headers": "the headers are longer than 32768 bytes"
        }
        assert client.get("/api/v2/status").status == 200


def test_no_route_takes_more_than_it_needs() -> None:
    limits = {route.path: route.body_limit for route in ROUTES if route.method == "POST"}
    assert max(limits.values()) == BODY
    assert limits["/api/v2/recover"] == 20_480
    assert limits["/api/v2/sign-quote"] == MIB
    assert limits["/api/v2/monotonic-counter"] == 64 * 1024
    assert limits["/recover"] == 64 * 1024
