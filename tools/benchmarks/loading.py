"""One run of the load program against one server."""

import contextlib
import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.load_report import LoadReport
from benchmarks.manifests import User
from benchmarks.processes import TroubleError, pinned

__all__ = ["Job", "LoadProgram", "run_load"]

_SPARE_SECONDS: Final = 20.0
_PREPARING_SECONDS: Final = 120.0
"""Time to make keys and signing requests of up to 20,000 workloads before the measurement."""


class LoadProgram(msgspec.Struct, frozen=True):
    """The command of a load program.

    ``complete`` states whether the program supports X25519MLKEM768 and activations.
    """

    name: str
    command: tuple[str, ...]
    complete: bool


class Job(msgspec.Struct, frozen=True):
    """The requests of a run.

    Each line of ``bodies`` is a body, of ``targets`` a request target, of ``types`` a marble type.
    With ``types`` the run activates workloads with keys on the curve ``workload_keys``.
    """

    path: str
    clients: int
    new_connections: bool = False
    curve: str = ""
    user: User | None = None
    bodies: Path | None = None
    targets: Path | None = None
    at_most: int | None = None
    types: Path | None = None
    workload_keys: str = "p256"

    def options(self) -> list[str]:
        """Return the options for the load program."""
        options = ["-clients", str(self.clients)]
        if self.at_most is not None:
            options += ["-max-requests", str(self.at_most)]
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
        if self.types is not None:
            options += ["-activate", str(self.types), "-workload-keys", self.workload_keys]
        return options


def run_load(
    program: LoadProgram,
    job: Job,
    *,
    port: int,
    pid: int,
    processor: int | None,
    seconds: float,
    warmup: float,
    folder: Path | None = None,
    beside: Job | None = None,
) -> LoadReport:
    """Run the load to its end in the working directory ``folder``, and return its report.

    ``processor`` is the number of the only permitted processor; None permits every processor.
    ``beside`` is a second load at the same time. Only the errors of the second report count.
    Raises ``TroubleError`` if a load program fails or does not end.
    """

    def started(what: Job, lasting: float) -> "subprocess.Popen[bytes]":
        command = [
            *program.command,
            *("-url", f"https://127.0.0.1:{port}{what.path}"),
            *("-pid", str(pid), "-seconds", str(lasting), "-warmup", str(warmup)),
            *what.options(),
        ]
        with pinned(processor):
            return subprocess.Popen(
                command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )

    patience = seconds + warmup + _SPARE_SECONDS + (_PREPARING_SECONDS if job.types else 0)
    with contextlib.ExitStack() as running:
        others = None if beside is None else running.enter_context(started(beside, seconds + 0.3))
        report = _reported(running.enter_context(started(job, seconds)), patience)
        if others is not None:
            report = _with_errors(report, _reported(others, patience))
    return report


def _reported(load: "subprocess.Popen[bytes]", patience: float) -> LoadReport:
    try:
        output, complaint = load.communicate(timeout=patience)
    except subprocess.TimeoutExpired as exc:
        load.kill()
        raise TroubleError("the load program did not end") from exc
    if load.returncode != 0:
        raise TroubleError(f"the load program failed: {complaint.decode(errors='replace').strip()}")
    return msgspec.json.decode(output, type=LoadReport)


def _with_errors(report: LoadReport, other: LoadReport) -> LoadReport:
    return msgspec.structs.replace(
        report,
        errors=report.errors + other.errors,
        failures=dict(Counter(report.failures) + Counter(other.failures)),
    )
