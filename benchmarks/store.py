"""Measure coordinators on a PostgreSQL database beside one on SQLite, and bare commits.

The database is given with ``--store`` and has the schema but no store (``keyhouse store init``).
Times are shown, never asserted.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.coordinator import STATUS, Coordinator
from benchmarks.figures import SMALL
from benchmarks.load_report import LoadReport
from benchmarks.loading import Job, LoadProgram, run_load
from benchmarks.manifests import User, read_target, upload_chunks
from benchmarks.processes import Processors, TroubleError
from benchmarks.scenarios import SECRETS, Requests

from keyhouse.journal.shared.url import store_url
from keyhouse.journal.store.postgres_connection import connect

_SIZE: Final = SECRETS[SMALL]
_COMMITS: Final = 500
_SEEN: Final = 200
_READERS: Final = 64
_SERVES: Final = '"serving the Client API"'
_POLL_SECONDS: Final = 0.05


class Line(msgspec.Struct, frozen=True):
    """One figure: microseconds, or requests per second."""

    what: str
    sqlite: float | None
    one: float | None
    two: float | None


class Measured:
    """Coordinators of one kind, and the load that they are put under."""

    def __init__(
        self, servers: Sequence[Coordinator], user: User, folder: Path, given: "_Given"
    ) -> None:
        self._servers = servers
        self._given = given
        self._requests = Requests(folder, user)
        self._user = user

    def writes(self, clients: int) -> LoadReport:
        """Upload with ``clients``, shared among the coordinators; return the sum of all."""
        each = self._requests.writes(_SIZE, max(clients // len(self._servers), 1))
        return self._run(each)

    def reads(self, clients: int) -> LoadReport:
        """Read one secret with ``clients``, shared among the coordinators."""
        count = max(clients // len(self._servers), 1)
        return self._run(Job(read_target(0), clients=count, user=self._user))

    def _run(self, job: Job) -> LoadReport:
        def one(server: Coordinator) -> LoadReport:
            return run_load(
                self._given.program, job, port=server.port, pid=server.process.pid,
                processor=self._given.processors.load, seconds=self._given.seconds, warmup=0.3,
            )  # fmt: skip

        with ThreadPoolExecutor(len(self._servers)) as pool:
            reports = list(pool.map(one, self._servers))
        if any(report.errors for report in reports):
            raise TroubleError(f"requests failed: {[report.statuses for report in reports]}")
        rate = sum(report.requests_per_second for report in reports)
        slowest = max(reports, key=lambda report: report.latency_us.p99)
        return msgspec.structs.replace(slowest, requests_per_second=rate)


class _Given(msgspec.Struct, frozen=True):
    store: str
    password_file: Path | None
    seconds: float
    program: LoadProgram
    keyhouse: Path
    processors: Processors


def main() -> None:
    """Measure, and print the table."""
    given = _given()
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-") as name:
            lines = _measure(given, Path(name))
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    print("| | SQLite | 1 replica | 2 replicas |\n|---|---|---|---|")
    for line in lines:
        shown = (
            f"{each:,.0f}" if each is not None else "" for each in msgspec.structs.astuple(line)[1:]
        )
        print(f"| {line.what} | {' | '.join(shown)} |")


def _measure(given: _Given, folder: Path) -> list[Line]:
    user = User.create(folder)
    bare = asyncio.run(_commits(given))
    where = ["--store", given.store]
    if given.password_file is not None:
        where += ["--store-password-file", str(given.password_file.absolute())]
    alone = _started(given, folder / "alone", [])
    first = _started(given, folder / "first", where)
    servers = [alone, first]
    try:
        for server in servers:
            server.hold_secrets(_SIZE, user)
        kinds = [_figures(Measured([server], user, folder, given)) for server in servers]
        shutil.copytree(first.data / "simulation", folder / "second" / "data" / "simulation")
        (folder / "second" / "data").chmod(0o700)
        second = _started(given, folder / "second", where)
        servers.append(second)
        kinds.append(_figures(Measured([first, second], user, folder, given)))
        lines = [Line(what, *(kind[what] for kind in kinds)) for what in kinds[0]]
        seen = _seen_elsewhere(first, second, user)
    finally:
        for server in servers:
            server.stop()
    return [
        Line("bare commit, p50 µs", None, bare, None),
        *lines,
        Line("answered elsewhere after an upload, p50 µs", None, None, seen),
        *_behind_one_address(given, folder, user, where),
    ]


def _figures(measured: Measured) -> dict[str, float]:
    alone, many = measured.writes(1), measured.writes(8)
    read, reads = measured.reads(1), measured.reads(_READERS)
    return {
        "upload alone, p50 µs": alone.latency_us.p50,
        "upload, 8 clients, /s": many.requests_per_second,
        "upload, 8 clients, p99 µs": many.latency_us.p99,
        "read alone, p50 µs": read.latency_us.p50,
        "read, 64 clients, /s": reads.requests_per_second,
        "read, 64 clients, CPU µs": reads.server_cpu.us_per_request if reads.server_cpu else 0.0,
    }


def _behind_one_address(
    given: "_Given", folder: Path, user: User, where: Sequence[str]
) -> list[Line]:
    """Return what replicas of one `keyhouse serve` do, on the state of before, on any processor."""
    place = folder / "replicas"
    shutil.copytree(folder / "first" / "data" / "simulation", place / "data" / "simulation")
    (place / "data").chmod(0o700)
    types = folder / "types"
    types.write_text("app\n")
    jobs = {
        "new connection, P-256": Job(STATUS, clients=8, new_connections=True, curve="p256"),
        "new connection, hybrid": Job(STATUS, clients=8, new_connections=True, curve="hybrid"),
        "activation": Job("/", clients=16, new_connections=True, types=types),
        "activation, kept connection": Job("/", clients=16, types=types),
        "read": Job(read_target(0), clients=_READERS, user=user),
    }
    found: dict[str, list[float]] = {}
    for count in (1, 2):
        arguments = [*where, "--replicas", str(count)]
        server = Coordinator(given.keyhouse, place, processor=None, arguments=arguments)
        try:
            while (place / "log").read_text().count(_SERVES) < 2 * count - 1:
                time.sleep(_POLL_SECONDS)
            for what, job in jobs.items():
                report = run_load(
                    given.program, job, port=server.mesh_port if job.types else server.port,
                    pid=server.process.pid, processor=None, seconds=given.seconds, warmup=0.3,
                )  # fmt: skip
                assert report.server_cpu is not None  # noqa: S101 - the complete program tells it
                found.setdefault(f"{what}, /s", []).append(report.requests_per_second)
                cpu = report.server_cpu.us_per_request
                found.setdefault(f"{what}, CPU µs", []).append(cpu)
        finally:
            server.stop()
    return [Line(f"one address: {what}", None, one, two) for what, (one, two) in found.items()]


def _started(given: _Given, folder: Path, arguments: Sequence[str]) -> Coordinator:
    return Coordinator(
        given.keyhouse, folder, processor=given.processors.server, arguments=arguments
    )


def _seen_elsewhere(first: Coordinator, second: Coordinator, user: User) -> float:
    """Return how long a request to one takes right after an upload to the other, in µs."""
    (body,) = upload_chunks(1)
    took = []
    for _ in range(_SEEN):
        first.post("/api/v2/secrets", body, user)
        took.append(second.post("/api/v2/secrets", body, user) * 1_000_000)
    return statistics.median(took)


async def _commits(given: _Given) -> float:
    """Return the median of commits without a row, over one connection, in µs."""
    connection = await connect(store_url(given.store, given.password_file))
    took = []
    for _ in range(_COMMITS):
        begun = time.perf_counter()
        await connection.commit_something()
        took.append((time.perf_counter() - begun) * 1_000_000)
    await connection.close()
    return statistics.median(took)


def _given() -> _Given:
    parser = argparse.ArgumentParser(prog="scripts/bench --store", description=__doc__)
    parser.add_argument("--store", required=True, metavar="URL", help="the database")
    parser.add_argument("--store-password-file", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--load", type=Path, required=True, metavar="PROGRAM")
    given = parser.parse_args()
    return _Given(
        store=given.store,
        password_file=given.store_password_file,
        seconds=given.seconds,
        program=LoadProgram("load", (str(given.load.resolve()),), complete=True),
        keyhouse=Path(sys.executable).parent / "keyhouse",
        processors=Processors.available(),
    )


if __name__ == "__main__":
    main()
