"""Measure running workloads: renewals, idle streams, and the time from a change to the files.

The table compares the times with targets. No time is an error.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from ssl import PEM_cert_to_DER_cert
from statistics import quantiles
from typing import Any, Final, NoReturn

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.floods.honest import Waits
from benchmarks.living.agents import Agents
from benchmarks.living.manifest import living_manifest, raised, upload
from benchmarks.living.wire import Wire, client_context
from benchmarks.living.workload import Evidence, Workload
from benchmarks.manifests import User, envelope
from benchmarks.processes import Process, Processors, TroubleError
from benchmarks.rows import Figures, Row, at_least, at_most, table, write_json
from benchmarks.surroundings import look_around
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL

from keyhouse.attestation import Measurements
from keyhouse_simulation import open_platform

_COLUMN: Final = "coordinator"
_THREADS: Final = 8
_TERMINATED: Final = 143


class Bench:
    """A coordinator on one processor, and its workloads on a second processor."""

    def __init__(self, options: argparse.Namespace, folder: Path, processors: Processors) -> None:
        self.options = options
        self.folder = folder
        self.user = User.create(folder)
        self.stranger = _context_of(self.user)
        keyhouse = Path(sys.executable).parent / "keyhouse"
        self.coordinator = Coordinator(keyhouse, folder / "served", processor=processors.server)
        self._load = processors.load
        self.coordinator.post("/api/v2/manifest", envelope(living_manifest(self.user)))
        self.put(0)

    def put(self, number: int) -> None:
        """Upload the value ``value<number>`` of the secret."""
        self.coordinator.post("/api/v2/secrets", upload(number), self.user)

    def workloads(self, count: int, evidence: Evidence | None = None) -> list[Workload]:
        """Activate workloads, and renew their certificates once."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        port = self.coordinator.mesh_port

        def make(_: int) -> Workload:
            workload = Workload(port, folder, self.stranger, evidence)
            workload.renew()
            return workload

        return list(_pool(make, range(count)))

    def evidence(self) -> Evidence:
        """Return a function for quotes of the package, on the machine of the coordinator."""
        platform = open_platform(self.coordinator.data / "simulation")
        who = Measurements(
            unique_id=bytes(32), signer_id=bytes(32), product_id=1, security_version=9
        )
        return partial(platform.workload_quote, who)

    def renewals(self, workloads: list[Workload]) -> tuple[float, float]:
        """Renew each workload once.

        Return the renewals per second, and the server's processor time per renewal in µs.
        """
        process = self.coordinator.process
        for _ in _pool(Workload.prepare, workloads):
            pass
        before, began = process.processor_seconds(), time.monotonic()
        for _ in _pool(Workload.renew, workloads):
            pass
        took, used = time.monotonic() - began, process.processor_seconds() - before
        return len(workloads) / took, used / len(workloads) * 1e6

    @contextmanager
    def honest(self) -> Iterator[Callable[[], Waits]]:
        """Run a separate client that requests the status.

        The yielded function ends the client and returns the waits.
        """
        port, pid = str(self.coordinator.port), str(self.coordinator.process.pid)
        command = [sys.executable, "-m", "benchmarks.floods.honest", port, pid]
        log = self.folder / "honest.log"
        with Process(command, processor=self._load, log=log, speaks=True) as process:
            process.first_line()

            def end() -> Waits:
                process.end_input()
                return msgspec.json.decode(process.first_line(), type=Waits)

            yield end


def _context_of(user: User) -> SSL.Context:
    key = load_pem_private_key(user.key.read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)  # noqa: S101 such keys are made
    return client_context(PEM_cert_to_DER_cert(user.text), key)


def _pool(act: Callable[[Any], Any], over: Any) -> Iterator[Any]:
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(act, over)


def _row(what: str, values: list[float], finding: Callable[[float], str] | None = None) -> Row:
    row = Row(what, {_COLUMN: values})
    return row if finding is None else Row(what, row.values, finding(row.of(_COLUMN)))


def _rows(bench: Bench) -> Iterator[Row]:
    options = bench.options
    for name, evidence, wanted in (
        ("without quotes", None, 400),
        ("with quotes", bench.evidence(), 250),
    ):
        workloads = bench.workloads(options.renewals, evidence)
        rounds = [bench.renewals(workloads) for _ in range(options.rounds)]
        rates = [rate for rate, _ in rounds]
        yield _row(f"renewals {name}, /s", rates, lambda rate: at_least(rate, wanted, "/s"))  # noqa: B023 called at once
        yield _row(f"renewals {name}, server CPU µs", [used for _, used in rounds])


def _file_rows(bench: Bench) -> Iterator[Row]:
    """Measure from an upload to the rewritten files of a few workloads."""
    options = bench.options
    workloads = bench.workloads(options.readers)
    with closing(Agents(workloads)) as agents:
        found: list[float] = []
        for number in range(1, options.uploads + 1):
            began = time.monotonic()
            bench.put(number)
            ended = agents.run(_fetch, len(workloads))
            found += [each - began for each in ended]
            wanted = b"value%d" % number
            if any(wanted != each.file.read_bytes() for each in workloads):
                raise TroubleError("a file does not contain the uploaded value")
        p50, p99 = _percentiles(found)
        name = f"upload to rewritten file, {len(workloads)} watchers"
        yield _row(f"{name}, p50 s", [p50])
        yield _row(f"{name}, p99 s", [p99], lambda value: at_most(value, 2, "s"))


def _stream_rows(bench: Bench) -> Iterator[Row]:
    """Measure many idle streams, then an upload and an update with all of them."""
    options, process = bench.options, bench.coordinator.process
    workloads = bench.workloads(options.watchers)
    before = bench.coordinator.settled_memory()
    used = process.processor_seconds()
    with closing(Agents(workloads)) as agents:
        count = len(workloads)
        opened = (process.processor_seconds() - used) / count * 1e6
        each_kib = (bench.coordinator.settled_memory() - before) / count
        name = f"{count:,} idle watchers"
        yield _row(f"{name}, KiB each", [each_kib], lambda value: at_most(value, 64, "KiB"))
        yield _row(f"{name}, server CPU µs to open one", [opened])
        used = process.processor_seconds()
        time.sleep(options.idle)
        share = (process.processor_seconds() - used) / options.idle * 100
        yield _row(f"{name}, % of a core", [share])

        began = time.monotonic()
        bench.put(1_000_000)
        p50, p99 = _percentiles([each - began for each in agents.run(_fetch, count)])
        yield _row(f"upload to rewritten file, {count:,} watchers, p50 s", [p50])
        yield _row(f"upload to rewritten file, {count:,} watchers, p99 s", [p99])
        yield from _update_rows(bench, agents, count)


def _update_rows(bench: Bench, agents: Agents, count: int) -> Iterator[Row]:
    process = bench.coordinator.process
    with bench.honest() as end:
        used, began = process.processor_seconds(), time.monotonic()
        bench.coordinator.post("/api/v2/update", raised(), bench.user)
        ended = agents.run(_renew, count)
        took = max(ended) - began
        share = (process.processor_seconds() - used) / took * 100
        waits = end()
    busiest = max(Counter(int(each - began) for each in ended).values())
    spread = 0.01 * count
    name = f"update, {count:,} watchers"
    yield _row(f"{name}: all have renewed, s", [took], lambda s: at_most(s, spread + 10, "s"))
    yield _row(
        f"{name}: renewals in the busiest second", [float(busiest)], lambda n: at_most(n, 400, "")
    )
    yield _row(f"{name}: failed calls", [float(agents.failures)], lambda n: at_most(n, 0, ""))
    yield _row(f"{name}: server, % of a core", [share])
    yield _row(f"{name}: longest status beside, ms", [waits.longest_ms])
    yield _row(f"{name}: median status beside, ms", [waits.median_ms])


def _fetch(workload: Workload, wire: Wire) -> Wire:
    workload.fetch(wire)
    return wire


def _renew(workload: Workload, wire: Wire) -> Wire:
    wire.close()
    workload.renew()
    following = workload.watch()
    workload.fetch(following)
    return following


def _percentiles(values: list[float]) -> tuple[float, float]:
    hundredths = quantiles(values, n=100, method="inclusive")
    return hundredths[49], hundredths[98]


def main() -> None:
    """Measure, print the table, and write the file of ``--json``."""
    options = _options()
    signal.signal(signal.SIGTERM, _terminated)
    processors = Processors.available()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.sched_setaffinity(0, {processors.load})
    rows = []
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-", dir=options.directory) as name:
            surroundings = look_around(Path(name), processors)
            for number, part in enumerate((_rows, _file_rows, _stream_rows)):
                folder = Path(name) / str(number)
                folder.mkdir(0o700)
                bench = Bench(options, folder, processors)
                try:
                    for row in part(bench):
                        sys.stderr.write(f"{row.what} {row.of(_COLUMN):.4g}\n")
                        rows.append(row)
                finally:
                    bench.coordinator.stop()
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    figures = Figures(surroundings, 0.0, options.rounds, rows)
    print(table(figures, [_COLUMN]))
    write_json(figures, options.json)


def _terminated(_number: int, _frame: object) -> NoReturn:
    """Exit by an exception, so that the contexts stop the coordinator and remove the folder."""
    sys.exit(_TERMINATED)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--living", action="store_true", required=True)
    parser.add_argument("--renewals", type=int, default=500, help="workloads in a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of renewals")
    parser.add_argument("--readers", type=int, default=100, help="workloads that rewrite a file")
    parser.add_argument("--uploads", type=int, default=12, help="uploads for the readers")
    parser.add_argument("--watchers", type=int, default=2000, help="workloads with a stream")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds without a change")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--directory", type=Path, help="directory for temporary data")
    options = parser.parse_args()
    for name in ("renewals", "readers", "watchers", "uploads"):
        if not 2 <= getattr(options, name) <= 4000:
            parser.error(f"--{name} goes from 2 to 4,000")
    if not 0 < options.idle <= 60:
        parser.error("--idle goes up to 60")
    if not 1 <= options.rounds <= 10:
        parser.error("--rounds goes from 1 to 10")
    return options


if __name__ == "__main__":
    main()
