"""Costs of the library OS: coordinators under ``gramine-direct`` and native, in turns.

The coordinators run from the shipped template, on the simulated platform. ``gramine-direct``
protects nothing, and the processor does not encrypt memory. So a real enclave costs more.
"""

import resource
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from benchmarks.coordinator import STATUS, Coordinator
from benchmarks.loading import Job, run_load
from benchmarks.manifests import (
    LIMITED,
    User,
    envelope,
    joining_manifest,
    marble_name,
    upload_bodies,
)
from benchmarks.options import Options
from benchmarks.processes import Process, Processors, TroubleError
from benchmarks.surroundings import Surroundings, busy, look_around
from support.process.gramine import (
    libraries,
    make_runtime,
    render,
    simulated,
    template,
    without_file_checks,
)

from keyhouse.server.net.limits import IDLE

__all__ = ["EnclaveFigures", "enclave_report", "measure_enclaves"]

NATIVE: Final = "native"
GRAMINE: Final = "gramine"
UNCHECKED: Final = "no file checks"
_KINDS: Final = (NATIVE, GRAMINE, UNCHECKED)
_STARTING: Final = (NATIVE, GRAMINE, UNCHECKED)
_BOTH: Final = (NATIVE, GRAMINE)

_MANY: Final = 10_000  # secrets
_FEW: Final = 100
_IDLE: Final = (0, 250, 1000, 4000)  # connections; a library OS keeps 256
_SPARE_FILES: Final = 500
_WORKLOADS: Final = 16
_AT_ONCE: Final = 32
_MORE_IS_BETTER: Final = "/s"


class EnclaveFigures(msgspec.Struct):
    """Values by row, by kind of coordinator, and by round. The name of a row ends in the unit."""

    surroundings: Surroundings
    used_share: float = 0.0  # of all processors, by all programs on the machine
    rows: dict[str, dict[str, list[float]]] = {}

    def note(self, row: str, kind: str, value: float) -> None:
        """Append the value of one round."""
        self.rows.setdefault(row, {}).setdefault(kind, []).append(value)


class _Enclave(Coordinator):
    """A coordinator under ``gramine-direct``; its manifest is rendered before the measurement."""

    def __init__(self, runtime: Path, folder: Path, kind: str, *, processor: int) -> None:
        self._runtime, self._kind = runtime, kind
        super().__init__(Path("gramine-direct"), folder, processor=processor)

    def serve_command(self) -> list[str]:
        """Return the command to serve the data directory."""
        return ["gramine-direct", str(self._folder / "enclave" / "keyhouse")]

    def _start(self) -> Process:
        if not self.data.exists():
            self._render()
        return super()._start()

    def _render(self) -> None:
        self.data.mkdir(mode=0o700)
        addresses = (
            *("--client-addr", f"127.0.0.1:{self.port}"),
            *("--mesh-addr", f"127.0.0.1:{self.mesh_port}"),
        )
        text = simulated(template(), arguments=addresses)
        values = {
            "keyhouse_dir": self._runtime,
            "arch_libdir": libraries(self._runtime),
            "data_dir": self.data,
            "isv_svn": 1,
        }
        text = without_file_checks(text) if self._kind == UNCHECKED else text
        render(self._folder / "enclave", text, values)


class _Run:
    """Coordinators of each kind in ``folder``; ``ends`` stops them."""

    def __init__(
        self, options: Options, folder: Path, processors: Processors, ends: ExitStack
    ) -> None:
        self.options = options
        self._folder = folder
        self._processors = processors
        self._ends = ends
        self._runtime = make_runtime(folder)
        self.user = User.create(folder)
        self.figures = EnclaveFigures(look_around(folder, processors))

    def start(self, kind: str, name: str) -> Coordinator:
        """Start a coordinator, and return it after its first answer."""
        folder, cpu = self._folder / f"{name}-{kind}".replace(" ", "-"), self._processors.server
        if kind == NATIVE:
            one: Coordinator = Coordinator(self.options.keyhouse, folder, processor=cpu)
        else:
            one = _Enclave(self._runtime, folder, kind, processor=cpu)
        self._ends.callback(one.stop)
        return one

    def file(self, name: str, content: bytes) -> Path:
        """Write a new file, and return its path."""
        path = self._folder / name
        path.write_bytes(content)
        return path

    def load(
        self,
        row: str,
        kind: str,
        one: Coordinator,
        job: Job,
        *,
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """Record latency, rate and cost of a load if ``holds`` returns true at the end.

        ``holds`` checks the condition that the name of the row states.

        Raises ``TroubleError`` if a request failed.
        """
        report = run_load(
            self.options.program,
            job,
            port=one.port if job.types is None else one.mesh_port,
            pid=one.process.pid,
            processor=self._processors.load,
            seconds=self.options.seconds,
            warmup=self.options.warmup,
        )
        if report.errors:
            raise TroubleError(f"{row}, {kind}: {report.errors} requests failed")
        if not report.requests or not holds():
            reason = "connections were closed meanwhile" if report.requests else "no answer in time"
            _say(f"left out: {row}, {kind}: {reason}")
            return
        self.figures.note(f"{row}, p50 µs", kind, report.latency_us.p50)
        self.figures.note(f"{row} {_MORE_IS_BETTER}", kind, report.requests_per_second)
        if report.server_cpu is not None:
            self.figures.note(f"{row}, CPU µs", kind, report.server_cpu.us_per_request)


def measure_enclaves(options: Options, folder: Path, processors: Processors) -> EnclaveFigures:
    """Measure starts, requests, activations and idle connections. Raises ``TroubleError``."""
    before = busy()
    with ExitStack() as ends:
        run = _Run(options, folder, processors, ends)
        for part in (_starts, _requests, _activations, _idle_connections):
            _say(part.__name__.strip("_").replace("_", " "))
            part(run, options.rounds)
    after = busy()
    used = (after.used - before.used) / (after.possible - before.possible)
    run.figures.used_share = round(used, 2)
    return run.figures


def _starts(run: _Run, rounds: int) -> None:
    note = run.figures.note
    for number in range(rounds):
        for kind in _STARTING:
            one = run.start(kind, f"empty-{number}")
            note("start ms", kind, one.first_answer * 1000)
            note("memory MiB", kind, one.settled_memory() / 1024)
            one.stop()
    holding = {kind: run.start(kind, "many") for kind in _STARTING}
    for one in holding.values():
        one.hold_secrets(_MANY, run.user)
    for _ in range(rounds):
        for kind, one in holding.items():
            one.restart()
            note(f"start with {_MANY:,} secrets ms", kind, one.first_answer * 1000)
    for one in holding.values():
        one.stop()


def _requests(run: _Run, rounds: int) -> None:
    upload = Job(
        "/api/v2/secrets",
        clients=1,
        user=run.user,
        bodies=run.file("bodies", upload_bodies(_FEW)),
    )
    serving = {kind: run.start(kind, "few") for kind in _BOTH}
    for one in serving.values():
        one.hold_secrets(_FEW, run.user)
    for _ in range(rounds):
        for clients in (1, 32):
            for kind in _BOTH:
                job = Job(STATUS, clients=clients)
                run.load(f"status, {_clients(clients)}", kind, serving[kind], job)
        for clients in (1, 8):
            job = msgspec.structs.replace(upload, clients=clients)
            for kind, one in serving.items():
                run.load(f"upload, {_clients(clients)}", kind, one, job)
    for one in serving.values():
        one.stop()


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


def _activations(run: _Run, rounds: int) -> None:
    if not run.options.program.complete:
        return
    usual = run.file("types", f"{marble_name(0)}\n".encode())
    limited = run.file("limited", f"{LIMITED}\n".encode())
    serving = {kind: run.start(kind, "joined") for kind in _BOTH}
    for one in serving.values():
        one.post("/api/v2/manifest", envelope(joining_manifest(1)))
    rows = {
        "activation, P-256": (usual, "p256"),
        "activation with a limit, P-384": (limited, "p384"),
    }
    for _ in range(rounds):
        for row, (types, curve) in rows.items():
            job = Job(
                "/", clients=_WORKLOADS, new_connections=True, types=types, workload_keys=curve
            )
            for kind, one in serving.items():
                run.load(row, kind, one, job)
    for one in serving.values():
        one.stop()


def _idle_connections(run: _Run, rounds: int) -> None:
    serving = {kind: run.start(kind, "idle") for kind in _BOTH}
    for _ in range(rounds):
        for count in _IDLE:
            for kind, one in serving.items():
                row, job = f"status beside {count:,} idle", Job(STATUS, clients=1)
                least = count if kind == NATIVE else min(count, IDLE)
                with _held(one.port, count) as held:
                    run.load(row, kind, one, job, holds=partial(_are_open, held, least))
    for one in serving.values():
        one.stop()


@contextmanager
def _held(port: int, count: int) -> Iterator[list[ssl.SSLSocket]]:
    """Hold ``count`` TLS connections, each after one answer."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count + _SPARE_FILES:
        raise TroubleError(f"{count} connections need more open files than ulimit -Hn allows")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback, and the requests have no real secrets
    request = f"GET {STATUS} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()

    def connected(_: int) -> ssl.SSLSocket:
        stream = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60))
        stream.sendall(request)
        if not stream.recv(4096).startswith(b"HTTP/1.1 200 "):
            raise TroubleError("the server did not answer on a connection for the idle test")
        return stream

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        held = list(pool.map(connected, range(count)))
    try:
        yield held
    finally:
        for stream in held:
            stream.close()


def _are_open(held: list[ssl.SSLSocket], least: int) -> bool:
    """Return whether at least ``least`` connections are open.

    On a busy machine, idle connections can time out before the last connection is open. A library
    OS keeps few connections.
    """
    return sum(map(_is_open, held)) >= least


def _is_open(stream: ssl.SSLSocket) -> bool:
    stream.setblocking(False)  # noqa: FBT003 the standard library's way
    try:
        return bool(stream.recv(1))
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False


def enclave_report(figures: EnclaveFigures) -> str:
    """Return the best and the median of each row, as plain text."""
    machine = figures.surroundings
    rows = [["best / median", *_KINDS]]
    for row, by_kind in figures.rows.items():
        rows.append([row, *(_cell(row, by_kind.get(kind)) for kind in _KINDS)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows]
    return "\n".join(
        [
            f"{machine.processor}, {machine.processors} processors used, kernel {machine.kernel}",
            f"Python {machine.python}",
            f"data on {machine.file_system}, write and sync of 4 KiB {machine.sync_us:,.0f} µs",
            f"all work together took {figures.used_share:.0%} of the machine",
            "",
            *lines,
        ]
    )


def _cell(row: str, values: list[float] | None) -> str:
    if not values:
        return "-"
    best = max(values) if row.endswith(_MORE_IS_BETTER) else min(values)
    return f"{best:,.0f} / {median(values):,.0f}"


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")
