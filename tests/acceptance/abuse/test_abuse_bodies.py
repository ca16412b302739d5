"""Bodies without end, compressed, by the dozen: memory has a cap and others are served."""

import gzip
import zlib
from pathlib import Path

import pytest
from support.peers.abuse import MIB, Wire, ask, besieged, in_parallel, open_wires
from support.samples.deployment import manifest

pytestmark = pytest.mark.acceptance

CAP = 128  # MiB that bodies of anonymous clients in flight may have together
PIECE = b"x" * 65536


def post(path: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((b"POST " + path + b" HTTP/1.1", b"Host: a", *fields)) + b"\r\n\r\n"


def test_endless_chunked_bodies_are_cut_off(tmp_path: Path) -> None:
    chunk = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)

    def push(number: int) -> tuple[int, int]:
        with Wire(server) as wire:
            wire.send(post(b"/api/v2/manifest", b"Transfer-Encoding: chunked"))
            one = b"1\r\nx\r\n" * 10_000 if number % 2 else chunk
            sent = wire.send_until_cut(one, 200 * MIB)
            return wire.answer()[0], sent

    with besieged(tmp_path, None, growth=CAP + 64) as server:
        outcomes = in_parallel(6, 3, push)
    assert all(status in {0, 400, 413} for status, _ in outcomes)  # 0: the reset came first
    assert max(sent for _, sent in outcomes) < 140 * MIB


def test_fifty_endless_bodies_share_one_cap_and_the_rest_is_told_to_come_again(
    tmp_path: Path,
) -> None:
    length = 22 * MIB

    def push(wire: Wire) -> bytes:
        wire.send(post(b"/api/v2/manifest", b"Content-Length: %d" % length))
        sent = wire.send_until_cut(PIECE, length - MIB)  # never all of it
        return wire.answer()[1] if sent < length - MIB else b""  # those who are let are not told

    with besieged(tmp_path, None, growth=CAP + 64) as server, open_wires(server, 50) as wires:
        answers = in_parallel(len(wires), 8, lambda number: push(wires[number]))
    refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
    assert len(refused) >= 50 - CAP // 22
    assert all(b"retry-after: 1\r\n" in answer for answer in refused)


def test_bodies_of_anonymous_clients_leave_memory_for_known_users(tmp_path: Path) -> None:
    """sign-quote takes a megabyte from anybody: 400 who announce it must not stop an upload."""
    raw = manifest(FeatureGates=["SignQuoteEndpoint"])
    head = post(b"/api/v2/sign-quote", b"Content-Length: %d" % MIB)
    with besieged(tmp_path, raw, growth=100) as server, open_wires(server, 400) as wires:
        for wire in wires:
            wire.send(head)
        with server.client() as client:
            assert client.get("/api/v2/status").status == 200
        status, found = ask(server, head)
        assert (status, b'{"status":"error"' in found) == (503, True)


def test_announced_bodies_keep_no_smaller_one_out(tmp_path: Path) -> None:
    """Five of 22 MiB and 18 of 1 MiB, which never come, are all that there may be."""
    lengths = [22 * MIB] * 5 + [MIB] * 18
    assert sum(lengths) == CAP * MIB
    with besieged(tmp_path, None, growth=CAP) as server, open_wires(server, 23) as wires:
        for wire, length in zip(wires, lengths, strict=True):
            wire.send(post(b"/api/v2/manifest", b"Content-Length: %d" % length))
            with server.client() as client:  # each has been read when others are answered
                assert client.get("/api/v2/status").status == 200
        with server.client() as client:
            assert client.set_manifest(b"{").status == 400
            assert client.set_manifest(manifest()).status == 200


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd", b"gzip, identity"])
def test_compressed_bodies_are_refused_unread(tmp_path: Path, coding: bytes) -> None:
    """A gigabyte of zeroes is a megabyte of gzip; nobody unpacks it."""
    pack = gzip.compress if coding.startswith(b"gzip") else zlib.compress
    packed = pack(bytes(64 * MIB), 1)
    with besieged(tmp_path, None, growth=16) as server:
        for _ in range(5):
            status, found = ask(
                server,
                post(
                    b"/api/v2/manifest",
                    b"Content-Encoding: " + coding,
                    b"Content-Length: %d" % len(packed),
                )
                + packed,
            )
            assert status == 415, found[:300]
            assert b'"status":"fail","data":{"headers":' in found
