"""The load programs, in Go and in Python, against the bare server of the benchmarks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from benchmarks.coordinator import Coordinator
from benchmarks.load_report import LoadReport
from benchmarks.loading import Job, LoadProgram, run_load
from benchmarks.manifests import LIMITED, User, envelope, joining_manifest, marble_name
from benchmarks.processes import Process, Processors

ROOT = Path(__file__).parents[2]
KEYHOUSE = Path(sys.executable).parent / "keyhouse"
PYTHON_LOAD = LoadProgram(
    "python", (sys.executable, "-m", "benchmarks.python_load"), complete=False
)


@pytest.fixture(scope="module", name="bare")
def _bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, int]]:
    command = [sys.executable, "-m", "benchmarks.bare"]
    log = tmp_path_factory.mktemp("bare") / "log"
    with Process(command, processor=_processor(), log=log, speaks=True, folder=ROOT) as process:
        yield process, msgspec.json.decode(process.first_line(), type=dict[str, int])["port"]


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> LoadProgram:
    go = shutil.which("go")
    if go is None:
        if os.environ.get("CI"):
            pytest.fail("Go is not installed, and continuous integration must test with it")
        pytest.skip("Go is not installed")
    program = tmp_path_factory.mktemp("go") / "load"
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off", "CGO_ENABLED": "0"}
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=ROOT / "tools" / "benchmarks" / "load",
        env=environment,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return LoadProgram("go", (str(program),), complete=True)


def _processor() -> int:
    return Processors.available().load


def _load(program: LoadProgram, bare: tuple[Process, int], job: Job) -> LoadReport:
    """Load the process for a short while; longer where a busy machine answered nothing in it.

    Not long at once: papers of workloads are made for as many as a quiet machine would activate.
    """
    process, port = bare
    load = partial(run_load, program, job, port=port, pid=process.pid, processor=_processor())
    for seconds in (0.2, 1):
        report = load(seconds=seconds, warmup=0.05, folder=ROOT)
        if report.requests:
            return report
    return load(seconds=10, warmup=0.05, folder=ROOT)


def _jobs(folder: Path) -> dict[str, Job]:
    user = User.create(folder)
    targets, bodies = folder / "targets", folder / "bodies"
    targets.write_text("/a?s=1\n/b?s=2\n")
    bodies.write_text("{}\n{}\n")
    return {
        "kept connections": Job("/api/v2/status", clients=4),
        "client certificate": Job("/", clients=2, user=user, targets=targets),
        "bodies": Job("/", clients=1, user=user, bodies=bodies),
        "new connections": Job("/", clients=2, new_connections=True, curve="p256"),
    }


def _check(report: LoadReport) -> None:
    assert report.requests > 0
    assert report.errors == 0, (report.statuses, report.failures)
    assert report.statuses == {"200": report.requests}
    assert 0 < report.latency_us.p50 <= report.latency_us.p99 <= report.latency_us.max
    assert report.server_cpu is not None


def test_every_kind_of_load_of_the_go_program_is_answered(
    built: LoadProgram, bare: tuple[Process, int], tmp_path: Path
) -> None:
    for job in _jobs(tmp_path).values():
        _check(_load(built, bare, job))
    _check(_load(built, bare, Job("/", clients=2, new_connections=True, curve="hybrid")))


@pytest.mark.acceptance
def test_workloads_of_the_go_program_are_activated(built: LoadProgram, tmp_path: Path) -> None:
    types = tmp_path / "types"
    types.write_text(f"{marble_name(0)}\n{LIMITED}\n")
    coordinator = Coordinator(KEYHOUSE, tmp_path / "coordinator", processor=_processor())
    try:
        coordinator.post("/api/v2/manifest", envelope(joining_manifest(1)))
        mesh = (coordinator.process, coordinator.mesh_port)
        _check(_load(built, mesh, Job("/", clients=4, types=types)))
        for keys in ("p256", "p384"):
            new = Job("/", clients=2, new_connections=True, types=types, workload_keys=keys)
            _check(_load(built, mesh, new))
        some = _load(built, mesh, Job("/", clients=2, types=types, at_most=7))
        types.write_text("unknown\n")
        refused = _load(built, mesh, Job("/", clients=2, types=types, at_most=50))
    finally:
        coordinator.stop()
    assert some.requests <= 7
    assert refused.errors == refused.failures["refused"] > 0


def test_every_kind_of_load_of_the_python_program_is_answered(
    bare: tuple[Process, int], tmp_path: Path
) -> None:
    for job in _jobs(tmp_path).values():
        _check(_load(PYTHON_LOAD, bare, job))


@pytest.mark.parametrize(
    "url", ["https://example.com:443/", "https://10.0.0.1:1/", "https://localhost:1/", "x"]
)
def test_python_program_refuses_what_is_not_loopback(url: str) -> None:
    done = subprocess.run(
        [*PYTHON_LOAD.command, "-url", url], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 2
    assert b"loopback" in done.stderr


def test_go_program_holds_to_its_own_tests(built: LoadProgram) -> None:
    assert built.complete
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off"}
    done = subprocess.run(
        ["go", "test", "./..."],
        cwd=ROOT / "tools" / "benchmarks" / "load",
        env=environment,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout.decode()
