"""Memory that refused bodies leave behind, with the garbage collector off: next to nothing.

A body in a cycle stays until the collector runs, which is rare. So anonymous clients of a
coordinator that waited for its manifest could fill its memory.
"""

import base64
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from grpc import StatusCode
from support.peers.abuse import MIB, PATIENCE, Wire, in_parallel, memory
from support.peers.workloads import grpcio, request
from support.process.server import Server
from support.samples.deployment import User, manifest, user

pytestmark = pytest.mark.acceptance

_PROGRAM: Final = Path(__file__).parents[2] / "support" / "process" / "uncollected.py"
COUNT: Final = 12  # each body that stayed would show: 100 of them left 6 MB, measured
SIZE: Final = 14 * MIB
MOST: Final = 20 * MIB  # that all of them may leave behind
AT_ONCE: Final = 4


class Uncollected(Server):
    """A coordinator whose garbage collector is off."""

    def __init__(self, folder: Path) -> None:
        self._report = folder / "report"
        words = [sys.executable, "-I", "-B", str(_PROGRAM), str(self._report)]
        super().__init__(folder / "uncollected", wrapper=words)

    def cycles(self) -> list[str]:
        """Return what held a large value in a cycle, since the beginning."""
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE
        while not self._report.exists():
            assert time.monotonic() < deadline
            with self.client() as client:  # the loop has to turn once
                client.get("/api/v2/status")
        found = self._report.read_text(encoding="utf-8").splitlines()
        self._report.unlink()
        return found


@contextmanager
def leaving_nothing(folder: Path, raw: bytes | None) -> Iterator[Server]:
    """Run a coordinator, with a manifest or without; the block may leave no body behind."""
    with Uncollected(folder) as server:
        if raw is not None:
            with server.client() as client:
                assert client.set_manifest(raw).status == 200
        with server.client(user("writer")) as client:
            client.get("/api/v2/status")
        assert server.cycles() == []
        before = memory(server, "VmRSS")
        yield server
        with server.client() as client:
            assert client.get("/api/v2/status").status == 200
        left = memory(server, "VmRSS") - before
        print(f"left behind: {left / MIB:.0f} MiB")  # noqa: T201 - shown by pytest -s
        assert server.cycles() == []
        assert left < MOST


def _encoded(raw: bytes) -> bytes:
    return json.dumps({"manifest": base64.b64encode(raw).decode()}).encode()


_DIGITS: Final = b"0" * (SIZE * 3 // 4)
NO_MANIFEST: Final = _encoded(b'{"Packages":{"app":{"UniqueID":"' + _DIGITS + b'"}}}')
BODIES: Final[dict[str, Callable[[], bytes]]] = {  # made where they are needed: they are large
    "no JSON": lambda: b'{"manifest":"' + b"A" * SIZE,
    "many values": lambda: b"[" + b"[]," * (SIZE // 3),
    "no base64": lambda: b'{"manifest":"' + b"!" * SIZE + b'"}',
    "no UTF-8": lambda: b'{"manifest":"' + b"\xff" * SIZE + b'"}',
    "no JSON in base64": lambda: _encoded(_DIGITS + b"x"),
    "no manifest": lambda: NO_MANIFEST,
}


def _refused(server: Server, path: str, body: bytes, caller: User | None = None) -> None:
    with server.client(caller) as client:
        status = client.call("POST", path, body).status
    assert 400 <= status < 500, status


def _left(server: Server, head: bytes, body: bytes) -> None:
    """Send a whole request and leave without its answer."""
    with Wire(server) as wire:
        wire.send(head + body)


def test_refused_first_manifests_leave_nothing_behind(tmp_path: Path) -> None:
    bodies = [make() for make in BODIES.values()]

    def send(number: int) -> None:
        _refused(server, "/api/v2/manifest", bodies[number % len(bodies)])

    with leaving_nothing(tmp_path, None) as server:
        in_parallel(COUNT, AT_ONCE, send)


def test_bodies_that_are_cut_malformed_or_left_leave_nothing_behind(tmp_path: Path) -> None:
    """By length and in chunks; clients that leave do so before, and while, it is worked on."""
    post = b"POST /api/v2/manifest HTTP/1.1\r\nHost: a\r\n"
    length = post + b"Content-Length: %d\r\n\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % SIZE
    kinds = (
        (length % (SIZE + 1), bytes(SIZE)),
        (length % len(NO_MANIFEST), NO_MANIFEST),
        (chunked, bytes(SIZE)),
        (chunked, bytes(SIZE) + b"x"),
        (chunked, bytes(SIZE) + b"\r\n0\r\n\r\n"),
    )
    with leaving_nothing(tmp_path, None) as server:
        in_parallel(COUNT, AT_ONCE, lambda number: _left(server, *kinds[number % len(kinds)]))
        _refused(server, "/api/v2/manifest", NO_MANIFEST)  # in its turn: after all the others


def test_refused_requests_of_users_leave_nothing_behind(tmp_path: Path) -> None:
    upload = json.dumps({"secrets": {"key0": {"key": "A" * SIZE}}}).encode()
    kinds = (
        ("/api/v2/plan", NO_MANIFEST, user("writer")),
        ("/api/v2/plan", NO_MANIFEST[:-2], user("writer")),
        ("/api/v2/update", NO_MANIFEST, user("writer")),
        ("/api/v2/secrets", upload, user("writer")),
        ("/api/v2/secrets", upload[:-2], user("writer")),
    )
    with leaving_nothing(tmp_path, manifest()) as server:
        in_parallel(COUNT, AT_ONCE, lambda number: _refused(server, *kinds[number % len(kinds)]))


def test_refused_messages_of_workloads_leave_nothing_behind(tmp_path: Path) -> None:
    def call(number: int) -> None:
        with grpcio(server.mesh_port) as client:
            field = "CSR" if number % 2 else "Quote"
            assert client.call(request(**{field: bytes(4 * MIB - 200)})).code is not StatusCode.OK

    with leaving_nothing(tmp_path, manifest()) as server:
        in_parallel(COUNT, AT_ONCE, call)
