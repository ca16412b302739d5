"""Coordinators on a database or on SQLite, and the load on these coordinators."""

import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.coordinator import STATUS, Coordinator
from benchmarks.figures import SMALL
from benchmarks.load_report import LoadReport
from benchmarks.loading import Job, LoadProgram, run_load
from benchmarks.manifests import User, read_target
from benchmarks.processes import Processors, TroubleError
from benchmarks.scenarios import SECRETS, Requests

__all__ = ["SIZE", "Given", "Loads", "behind_one_address", "beside"]

SIZE: Final = SECRETS[SMALL]
"""The number of secrets."""

_HANDSHAKE_SECONDS: Final = 0.015  # warm-up for the handshake of each client
_READERS: Final = 64
_WRITERS: Final = 8
_SERVES: Final = '"serving the Client API"'
_POLL_SECONDS: Final = 0.05


class Given(msgspec.Struct, frozen=True):
    """The settings for all parts of the benchmark. ``folder`` is new.

    With ``spreads``, coordinators and load may use every processor.
    """

    folder: Path
    user: User
    requests: Requests
    seconds: float
    rounds: int
    program: LoadProgram
    keyhouse: Path
    processors: Processors
    spreads: bool = False

    def started(self, name: str, arguments: Sequence[str] = ()) -> Coordinator:
        """Start a coordinator in the new directory ``name``."""
        return Coordinator(
            self.keyhouse,
            self.folder / name,
            processor=None if self.spreads else self.processors.server,
            arguments=arguments,
        )


def beside(given: Given, first: Coordinator, name: str) -> Path:
    """Return a new directory for a coordinator on the simulated machine of ``first``."""
    folder = given.folder / name
    shutil.copytree(first.data / "simulation", folder / "data" / "simulation")
    (folder / "data").chmod(0o700)
    return folder


class Loads:
    """Coordinators of one kind, with the clients spread over them.

    A single client uses the first coordinator.
    """

    def __init__(self, servers: Sequence[Coordinator], given: Given) -> None:
        self._servers = servers
        self._given = given

    def figures(self) -> Iterator[tuple[str, float | None]]:
        """Yield each figure of a round; None: no request had an answer in time."""
        first = self._servers[:1]
        yield "upload alone, p50 µs", self.uploads(1).latency_us.p50 or None
        many = self.uploads(_WRITERS)
        yield "upload, 8 clients, /s", many.requests_per_second or None
        yield "upload, 8 clients, p99 µs", many.latency_us.p99 or None
        read = self._run(Job(read_target(0), clients=1, user=self._given.user), first)
        yield "read alone, p50 µs", read.latency_us.p50 or None
        clients = max(_READERS // len(self._servers), 1)
        job = Job(read_target(0), clients=clients, user=self._given.user)
        reads = self._run(job, self._servers)
        yield "read, 64 clients, /s", reads.requests_per_second or None
        yield "read, 64 clients, CPU µs", _cpu(reads)

    def uploads(self, clients: int) -> LoadReport:
        """Run ``clients`` uploading clients, spread over the coordinators.

        Raises ``TroubleError`` if a request failed.
        """
        servers = self._servers[:clients]
        each, more = divmod(clients, len(servers))
        shares = [each + (place < more) for place in range(len(servers))]
        writes = self._given.requests.writes
        return self._run_all([writes(SIZE, share) for share in shares], servers)

    def _run(self, job: Job, servers: Sequence[Coordinator]) -> LoadReport:
        """Run ``job`` at each of ``servers``; raise ``TroubleError`` if a request failed."""
        return self._run_all([job] * len(servers), servers)

    def _run_all(self, jobs: Sequence[Job], servers: Sequence[Coordinator]) -> LoadReport:
        """Return the report of the slowest run with the total rate of all runs.

        Raises ``TroubleError`` if a request failed.
        """
        given = self._given
        processor = None if given.spreads else given.processors.load

        def one(job: Job, server: Coordinator) -> LoadReport:
            return run_load(
                given.program, job, port=server.port, pid=server.process.pid,
                processor=processor, seconds=given.seconds, warmup=_warmup(job),
            )  # fmt: skip

        with ThreadPoolExecutor(len(servers)) as pool:
            reports = list(pool.map(one, jobs, servers))
        if any(report.errors for report in reports):
            raise TroubleError(f"requests failed: {[report.statuses for report in reports]}")
        rate = sum(report.requests_per_second for report in reports)
        slowest = max(reports, key=lambda report: report.latency_us.p99)
        return msgspec.structs.replace(slowest, requests_per_second=rate)


def behind_one_address(
    given: Given, place: Path, count: int, arguments: Sequence[str]
) -> Iterator[tuple[str, float | None]]:
    """Yield the figures of `keyhouse serve --replicas` in ``place``, on every processor.

    ``count`` is the number of replicas.
    """
    types = place / "types"
    types.write_text("app\n")
    jobs = {
        "new connection, P-256": Job(STATUS, clients=8, new_connections=True, curve="p256"),
        "new connection, hybrid": Job(STATUS, clients=8, new_connections=True, curve="hybrid"),
        "activation": Job("/", clients=16, new_connections=True, types=types),
        "activation, kept connection": Job("/", clients=16, types=types),
        "read": Job(read_target(0), clients=_READERS, user=given.user),
    }
    (place / "log").unlink(missing_ok=True)
    more = [*arguments, "--replicas", str(count)]
    server = Coordinator(given.keyhouse, place, processor=None, arguments=more)
    try:
        while (place / "log").read_text().count(_SERVES) < count:
            time.sleep(_POLL_SECONDS)
        for _ in range(given.rounds):
            for what, job in jobs.items():
                report = run_load(
                    given.program, job, port=server.mesh_port if job.types else server.port,
                    pid=server.process.pid, processor=None, seconds=given.seconds,
                    warmup=_warmup(job),
                )  # fmt: skip
                if report.errors:
                    raise TroubleError(f"{what}: requests failed: {report.statuses}")
                yield f"one address: {what}, /s", report.requests_per_second or None
                yield f"one address: {what}, CPU µs", _cpu(report)
    finally:
        server.stop()


def _warmup(job: Job) -> float:
    return max(0.3, _HANDSHAKE_SECONDS * job.clients)


def _cpu(report: LoadReport) -> float | None:
    return None if report.server_cpu is None else report.server_cpu.us_per_request
