"""A real coordinator under attack, beside an honest client: checks of memory, log and exit code.

The measure of the honest client's wait is the work of the server for the attackers meanwhile. The
unit is the processor time of the event loop for a status request. A slow or busy machine prolongs
both, so the verdict does not change.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from support.peers.https import trusting_context
from support.process.server import Client, Server
from support.samples.deployment import user

T = TypeVar("T")

MIB: Final = 1024 * 1024
PATIENCE: Final = 30.0  # seconds for an answer on a busy machine
MOST_WORK: Final = 200_000  # status requests: the permitted work of the server before an answer
STATUS: Final = b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n"
STATUSES: Final = 100  # status requests in one measurement before an attack
MEASUREMENTS: Final = 5
PAUSE: Final = 0.05  # seconds between two requests of the honest client
EXPECTED_WARNINGS: Final = (
    "SIMULATION",
    "the process is less protected",
    "out of descriptors",
    "the limit of open files",
    "connections aborted",
)
MOST_LINES: Final = 40  # of log, for any number of failed connections


class Honest(threading.Thread):
    """Reads the status and uploads secrets repeatedly until ``stop``."""

    def __init__(self, server: Server, *, uploads: bool) -> None:
        super().__init__(name="honest")
        self.seconds: list[float] = []
        self.work: list[int] = []
        self.failures: list[str] = []
        self._server = server
        self._uploads = uploads
        self._end = threading.Event()

    def run(self) -> None:
        """Send requests until ``stop``; record the cost of each answer, and failures."""
        turn = 0
        while not self._end.is_set():
            try:
                with self._server.client(user("writer")) as client:
                    for _ in range(10):  # requests for each connection
                        turn += 1
                        self._ask(client, turn)
                        if self._end.wait(PAUSE):
                            return
            except (OSError, AssertionError) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                return

    def _ask(self, client: Client, turn: int) -> None:
        begin, worked = time.perf_counter(), loop_time(self._server)
        if self._uploads and turn % 2:
            reply = client.upload({"key0": turn.to_bytes(16, "big")})
        else:
            reply = client.get("/api/v2/status")
        self.seconds.append(time.perf_counter() - begin)
        self.work.append(loop_time(self._server) - worked)
        assert reply.status == 200, (reply.status, reply.body[:300])

    def stop(self, status: int, limit: int) -> None:
        """Stop the thread. Fail if an answer waited for ``limit * status`` nanoseconds of work."""
        self._end.set()
        self.join()
        assert not self.failures, self.failures
        ordered = sorted(self.seconds)
        middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        most = max(self.work) // status
        print(  # noqa: T201 - shown by pytest -s: a measurement, without an assertion
            f"honest client: {len(ordered)} answers, median {middle * 1000:.1f} ms,"
            f" p99 {late * 1000:.1f} ms, longest {ordered[-1] * 1000:.1f} ms;"
            f" most work {most} requests of {status} ns"
        )
        assert most < limit


def loop_time(server: Server) -> int:
    """Return the nanoseconds of processor time that the server's event loop has used.

    Source: sched-stats, kernel documentation.
    """
    assert server.process is not None
    number = server.process.pid
    words = Path(f"/proc/{number}/task/{number}/schedstat").read_text(encoding="ascii").split()
    return int(words[0])


def processor_time(server: Server) -> int:
    """Return the processor time of all threads of the server, in ticks of the kernel.

    Source: proc_pid_stat(5), ``utime`` and ``stime``.
    """
    assert server.process is not None
    line = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="utf-8")
    words = line.rpartition(") ")[2].split()
    return int(words[11]) + int(words[12])


def work_of_a_status(server: Server) -> int:
    """Return the event loop's cost of a status request, in nanoseconds, averaged over many."""

    def measured() -> int:
        before, found = loop_time(server), b""
        wire.send(STATUS * STATUSES)
        while found.count(b"HTTP/1.1 200 ") < STATUSES or not found.endswith(b"}\n"):
            found += wire.tls.recv(65536)
        return loop_time(server) - before

    with Wire(server) as wire:
        return min(measured() for _ in range(MEASUREMENTS)) // STATUSES


@contextmanager
def besieged(
    folder: Path,
    raw: bytes | None,
    *,
    growth: int,
    wrapper: Sequence[str] = (),
    told: int = 0,
    warnings: tuple[str, ...] = (),
    work: int = MOST_WORK,
) -> Iterator[Server]:
    """Run a coordinator that must survive the attack of the block.

    ``raw``: the manifest; None: no manifest, and the honest client uploads nothing. Each answer to
    the honest client must cost the server less than ``work`` status requests of processor time.
    The peak of memory must be less than ``growth`` MiB above the value before the attack.
    At the end, the coordinator must answer and stop with exit code 0. Its log must be short:
    ``told`` lines for the attack, and few more. Warnings must begin with an expected text or with
    a text in ``warnings``.
    """
    server = Server(folder / "besieged", wrapper=wrapper)
    with server:
        if raw is not None:
            with server.client() as client:
                assert client.set_manifest(raw).status == 200
        before = memory(server, "VmRSS")
        status = work_of_a_status(server)
        honest = Honest(server, uploads=raw is not None)
        honest.start()
        try:
            yield server
        finally:
            honest.stop(status, work)
        peak, after = memory(server, "VmHWM"), memory(server, "VmRSS")
        print(  # noqa: T201 - as above
            f"memory: {before / MIB:.0f} MiB, at most {peak / MIB:.0f}, at last {after / MIB:.0f}"
        )
        assert peak - before < growth * MIB
        with server.client() as client:
            assert client.get("/api/v2/status").status == 200
        assert server.stop() == 0
    check_log(server, MOST_LINES + told, warnings)


def memory(server: Server, kind: str) -> int:
    """Return resident bytes of the process: ``VmRSS`` is the present size, ``VmHWM`` the peak."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith(f"{kind}:"))
    return int(line.split()[1]) * 1024


def check_log(server: Server, most: int, warnings: tuple[str, ...] = ()) -> None:
    """Refuse a log with many lines, an error, an unexpected warning, or a line without JSON."""
    lines = server.logged().splitlines()
    assert len(lines) < most, lines[-5:]
    for line in lines:
        entry = json.loads(line)
        if entry["level"] != "info":
            assert entry["level"] == "warning", line
            assert entry["event"].startswith(EXPECTED_WARNINGS + warnings), line


def tls_context(*, fast: bool = True) -> ssl.SSLContext:
    """Return a client's context that trusts every server; ``fast`` selects a cheap curve."""
    context = trusting_context()
    if fast:
        context.set_ecdh_curve("prime256v1")
    return context


CONTEXT: Final = tls_context()


def raw_socket(server: Server) -> socket.socket:
    """Return a TCP connection."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


class Wire:
    """A TLS connection for bytes that no client library sends."""

    def __init__(self, server: Server, context: ssl.SSLContext = CONTEXT) -> None:
        raw = raw_socket(server)
        try:
            self.tls = context.wrap_socket(raw)
        except BaseException:
            raw.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tls.close()

    def send(self, data: bytes) -> None:
        self.tls.sendall(data)

    def send_until_cut(self, data: bytes, most: int) -> int:
        """Send ``data`` repeatedly, up to ``most`` bytes; return the number of sent bytes."""
        sent = 0
        with suppress(OSError):
            while sent < most:
                self.tls.sendall(data)
                sent += len(data)
        return sent

    def answer(self) -> tuple[int, bytes]:
        """Read until the server closes or an error occurs; return the first status and all bytes.

        The status is 0 without a status line of HTTP/1.1.
        """
        found = b""
        with suppress(OSError):
            while piece := self.tls.recv(65536):
                found += piece
        return (int(found[9:12]) if found.startswith(b"HTTP/1.1 ") else 0), found


def ask(server: Server, data: bytes, context: ssl.SSLContext = CONTEXT) -> tuple[int, bytes]:
    """Send ``data`` on a new connection; return the result of ``Wire.answer``."""
    with Wire(server, context) as wire:
        with suppress(OSError):
            wire.send(data)
        return wire.answer()


def in_parallel(count: int, threads: int, work: Callable[[int], T]) -> list[T]:
    """Return the results of ``work`` for 0, 1 ... ``count`` - 1."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, range(count)))


@contextmanager
def open_wires(server: Server, count: int, threads: int = 2) -> Iterator[list[Wire]]:
    """Hold ``count`` TLS connections open."""
    with ExitStack() as stack:
        yield in_parallel(count, threads, lambda _: stack.enter_context(Wire(server)))
