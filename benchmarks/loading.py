"""One run of the load program against one server, and what it reports."""

import subprocess
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.manifests import User
from benchmarks.processes import Trouble, pinned

__all__ = ["Job", "Latency", "LoadProgram", "LoadReport", "ServerCpu", "run_load"]

_SPARE_SECONDS: Final = 20.0


class Latency(msgspec.Struct, frozen=True):
    """Latencies in microseconds."""

    p50: float
    p90: float
    p99: float
    max: float


class ServerCpu(msgspec.Struct, frozen=True):
    """Processor time of the server with all its threads: share of one processor, and per request.

    ``resolution_us_per_request`` is what the latter may be wrong by: the kernel counts in ticks.
    """

    share: float
    us_per_request: float
    resolution_us_per_request: float


class LoadReport(msgspec.Struct, frozen=True):
    """What a load program prints."""

    requests: int
    errors: int
    statuses: dict[str, int]
    failures: dict[str, int]
    seconds: float
    requests_per_second: float
    latency_us: Latency
    load_cpu_share: float
    server_cpu: ServerCpu | None


class LoadProgram(msgspec.Struct, frozen=True):
    """How the load program is called. ``hybrid`` says whether it can do X25519MLKEM768."""

    name: str
    command: tuple[str, ...]
    hybrid: bool


class Job(msgspec.Struct, frozen=True):
    """What a run asks for. Files hold one body, or one request target, a line."""

    path: str
    clients: int
    new_connections: bool = False
    curve: str = ""
    user: User | None = None
    bodies: Path | None = None
    targets: Path | None = None

    def options(self) -> list[str]:
        """Return the command-line options for it."""
        options = ["-clients", str(self.clients)]
        if self.new_connections:
            options.append("-new-connections")
        if self.curve:
            options += ["-curve", self.curve]
        if self.user is not None:
            options += ["-cert", str(self.user.certificate), "-key", str(self.user.key)]
        if self.bodies is not None:
            options += ["-method", "POST", "-bodies", str(self.bodies)]
        if self.targets is not None:
            options += ["-targets", str(self.targets)]
        return options


def run_load(
    program: LoadProgram,
    job: Job,
    *,
    port: int,
    pid: int,
    processor: int,
    seconds: float,
    warmup: float,
    folder: Path | None = None,
) -> LoadReport:
    """Run the load to its end, in ``folder``, and return what it reports.

    Raises ``Trouble`` if it reports nothing.
    """
    command = [
        *program.command,
        *("-url", f"https://127.0.0.1:{port}{job.path}"),
        *("-pid", str(pid), "-seconds", str(seconds), "-warmup", str(warmup)),
        *job.options(),
    ]
    with pinned(processor):
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                cwd=folder,
                timeout=seconds + warmup + _SPARE_SECONDS,
            )
        except subprocess.TimeoutExpired as exc:
            raise Trouble("the load program did not end") from exc
    if done.returncode != 0:
        raise Trouble(f"the load program failed: {done.stderr.decode(errors='replace').strip()}")
    return msgspec.json.decode(done.stdout, type=LoadReport)
