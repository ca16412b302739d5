"""Requests that no honest client sends, against the real process."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers.abuse import MIB, Wire, ask, besieged, in_parallel, open_wires, tls_context
from support.peers.answers import REFUSALS
from support.process.server import Server
from support.samples.deployment import manifest

pytestmark = pytest.mark.acceptance

STATUS = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n"
NEXT = STATUS.replace(b"/status", b"/manifest")  # what a smuggler would want to be a request


def request(first: bytes, *fields: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((first, b"Host: a", *fields)) + b"\r\n\r\n" + body


POST = b"POST /api/v2/secrets HTTP/1.1"
SMUGGLED = {
    "length and chunked": request(
        POST, b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    ),
    "chunked and length": request(
        POST, b"Transfer-Encoding: chunked", b"Content-Length: 3", body=b"0\r\n\r\n"
    ),
    "two lengths": request(POST, b"Content-Length: 0", b"Content-Length: 5"),
    "a list of lengths": request(POST, b"Content-Length: 0, 5"),
    "a signed length": request(POST, b"Content-Length: +5"),
    "a blank before the colon": request(POST, b"Content-Length : 5"),
    "a folded length": request(POST, b"X: y", b" Content-Length: 5"),
    "a coding behind a tab": request(POST, b"Transfer-Encoding:\x0bchunked"),
    "gzip, chunked": request(POST, b"Transfer-Encoding: gzip, chunked"),
    "chunked twice": request(POST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "chunked in 1.0": request(b"POST /api/v2/secrets HTTP/1.0", b"Transfer-Encoding: chunked"),
    "a line feed alone": b"GET /api/v2/status HTTP/1.1\nHost: a\n\n",
    "a carriage return alone": request(b"GET /api/v2/status HTTP/1.1", b"X: y\rContent-Length: 9"),
    "a NUL": request(b"GET /api/v2/status HTTP/1.1", b"X: \0"),
    "a line break in the path": request(b"GET /api/v2/status%0d%0a HTTP/1.1"),
    "two hosts": request(b"GET /api/v2/status HTTP/1.1", b"Host: b"),
    "an absolute target": request(b"GET https://b/api/v2/status HTTP/1.1"),
    "a tunnel": request(b"CONNECT a:443 HTTP/1.1"),
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an upgrade to h2c": request(
        b"GET /api/v2/status HTTP/1.1",
        b"Connection: Upgrade, HTTP2-Settings",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    ),
    "an upgrade to a websocket": request(
        b"GET /api/v2/status HTTP/1.1", b"Connection: Upgrade", b"Upgrade: websocket"
    ),
    "TLS within TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an empty line first": b"\r\n",
}
SIZES = {
    "1 MB of query": (request(b"GET /api/v2/status?" + b"s=" * 500_000 + b" HTTP/1.1"), 414),
    "1 MB of path": (request(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1"), 414),
    "1 MB of method": (b"A" * 1_000_000, 414),
    "101 header fields": (request(b"GET /api/v2/status HTTP/1.1", *[b"X: y"] * 100), 431),
    "33 KB of header": (request(b"GET /api/v2/status HTTP/1.1", b"X: " + b"y" * 33_000), 431),
    "an endless header": (b"GET /api/v2/status HTTP/1.1\r\nX: " + b"y" * 1_000_000, 431),
    "header lines without end": (
        b"GET /api/v2/status HTTP/1.1\r\n" + b"X: y\r\n" * 200_000,
        431,
    ),
    "100 header fields": (request(b"GET /api/v2/status HTTP/1.1", *[b"X: y"] * 99), 200),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One coordinator for all of them: none may harm it."""
    with besieged(tmp_path_factory.mktemp("requests"), manifest(), growth=64) as server:
        yield server


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_smuggled_request_is_not_answered(server: Server, name: str) -> None:
    """One refusal and the end: what follows the ambiguous request is no request."""
    status, found = ask(server, SMUGGLED[name] + NEXT)
    assert status in REFUSALS
    assert found.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in found
    assert b"manifestFingerprint" not in found


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_limited_and_the_answer_says_so(server: Server, name: str) -> None:
    data, expected = SIZES[name]
    with Wire(server) as wire:
        wire.send_until_cut(data, len(data))
        answer = wire.tls.recv(4096)
    assert answer.startswith(b"HTTP/1.1 %d " % expected)


def test_ten_thousand_requests_in_one_write_are_answered_in_order(server: Server) -> None:
    count = 10_000
    other = STATUS.replace(b"/status", b"/none")

    def pipeline(number: int) -> list[int]:
        wire_bytes = (STATUS + other) * (count // 2) + NEXT.replace(b"1.1\r\n", b"1.0\r\n")
        with Wire(server) as wire:
            if number:  # these read only once they have been let write everything
                wire.tls.settimeout(2)
                wire.send_until_cut(wire_bytes, len(wire_bytes))
                return []
            found = send_and_read(wire.tls, wire_bytes)
        return [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:]]

    answers = in_parallel(4, 4, pipeline)[0]
    assert answers == [200, 405] * (count // 2) + [200]


def send_and_read(tls: ssl.SSLSocket, data: bytes) -> bytes:
    """Send and read on one thread: neither side may wait for the other for ever."""
    tls.setblocking(False)  # noqa: FBT003 - the standard library's way
    found, at = bytearray(), 0
    while True:
        try:
            if at < len(data):
                at += tls.send(data[at : at + 65536])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            piece = tls.recv(65536)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            continue
        if not piece:
            return bytes(found)
        found += piece


def test_a_client_that_offers_only_http_2_is_told_in_the_handshake(server: Server) -> None:
    context = tls_context()
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        ask(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", context)


def test_a_body_on_a_request_that_takes_none_is_not_kept(server: Server) -> None:
    """100 connections announce a gigabyte to a path that reads no body, and send what they can."""
    head = request(b"GET /api/v2/status HTTP/1.1", b"Content-Length: 1000000000")

    def push(_: int) -> int:
        with Wire(server) as wire:
            wire.send(head)
            return wire.send_until_cut(b"x" * 65536, 100 * MIB)

    assert max(in_parallel(100, 8, push)) < 16 * MIB


@pytest.mark.parametrize(
    "target",
    [
        b"/api/v2/log/checkpoint?%d" + b"&%%61" * 4_000,
        b"/api/v2/log/checkpoint?%d&newest=" + b"%%61" * 5_300,
        b"/api/v2/log/object/%d" + b"%%61" * 5_300,
    ],
    ids=["many parameters", "escapes in a query", "escapes in a path"],
)
def test_costly_targets_in_one_flood_keep_nobody_waiting(tmp_path: Path, target: bytes) -> None:
    """300 connections send three of them at once, 14 MB in total."""
    with (
        besieged(tmp_path, manifest(), growth=120, work=80_000) as server,
        open_wires(server, 300) as wires,
    ):
        for number, wire in enumerate(wires):
            wire.send((b"GET " + target % number + b" HTTP/1.1\r\nHost: a\r\n\r\n") * 3)
        for wire in wires:
            assert wire.tls.recv(4096).startswith(b"HTTP/1.1 ")
