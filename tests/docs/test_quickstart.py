"""The quickstart of README, typed by a newcomer: from the wheels, in an empty environment."""

import os
import re
import shlex
import ssl
import subprocess
import sys
import sysconfig
import tomllib
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.process.terminal import Terminal

_ROOT: Final = Path(__file__).parents[2]
_QUICKSTART: Final = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MANIFEST: Final = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SETS_UP: Final = "scripts/setup runtime\n"
_UV: Final = Path(sys.executable).with_name("uv")
_MOST_COMMANDS: Final = 6
_LONGEST_PATH: Final = 40

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheels of both distributions."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (".", "simulation"):
        build = [sys.executable, "-m", "flit_core.wheel", "--outdir", str(folder), project]
        subprocess.run(build, cwd=_ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture
def newcomer(tmp_path: Path) -> Path:
    """A directory with an environment that has the dependencies, and nothing of Keyhouse."""
    environment = tmp_path / ".venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", environment],
        check=True,
        capture_output=True,
    )
    [packages] = environment.glob("lib/python3*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith("keyhouse") and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    return tmp_path


def install(newcomer: Path, wheels: Path, *names: str) -> None:
    """Install wheels of ours, from nowhere else."""
    python = newcomer / ".venv/bin/python"
    found = [next(wheels.glob(f"{name}-[0-9]*.whl")) for name in names]
    words = ["pip", "install", "--no-deps", "--no-index", "--no-cache", "--python"]
    subprocess.run([_UV, *words, python, *found], check=True, capture_output=True)


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a newcomer, who has no Keyhouse on PATH."""
    ours = str(Path(sys.executable).parent)
    path = [each for each in os.environ["PATH"].split(os.pathsep) if each != ours]
    return {"PATH": os.pathsep.join(path), "HOME": str(home)}


def test_from_nothing_to_a_secret_of_a_verified_coordinator(newcomer: Path, wheels: Path) -> None:
    page = (_ROOT / "README.md").read_text(encoding="utf-8")
    first, second = _QUICKSTART.findall(page.partition("## Try it")[2])[:2]
    commands = (first + second).splitlines()
    assert len(commands) <= _MOST_COMMANDS
    assert max(len(word) for line in commands for word in shlex.split(line)) <= _LONGEST_PATH
    assert first.startswith(_SETS_UP)
    install(newcomer, wheels, "keyhouse", "keyhouse_simulation")

    with (
        Terminal(newcomer, environment(newcomer)) as one,
        Terminal(newcomer, environment(newcomer)) as other,
    ):
        one.type(first.removeprefix(_SETS_UP))
        other.type(second)
        one.interrupt()

    assert "running: workloads that the manifest names are accepted" in other.shown
    assert "SIMULATION: proves nothing about hardware" in other.shown
    assert "hello" in other.shown
    (printed,) = _MANIFEST.findall(page)
    shown = yaml.safe_load(printed)
    written = yaml.safe_load((newcomer / "keyhouse-dev/manifest.yaml").read_text())
    for section, entries in shown.items():
        assert entries.items() <= written[section].items()
    assert sorted(each.name for each in newcomer.iterdir()) == [
        *(".config", ".venv"),
        *([".local"] if (newcomer / ".local").exists() else []),
        "keyhouse-dev",
    ]


def test_the_example_comes_with_the_wheels(newcomer: Path, wheels: Path) -> None:
    install(newcomer, wheels, "keyhouse", "keyhouse_simulation")

    with Terminal(newcomer, environment(newcomer)) as terminal:
        terminal.type(
            ". .venv/bin/activate\nkeyhouse dev --example --client-port 0 --workload-port 0\n"
        )
        [port] = re.findall(
            r"^curl .* https://localhost:(\d+)/apples$", terminal.shown, re.MULTILINE
        )
        for _ in ("stock", "orders"):
            terminal.wait_for("serving at 127.0.0.1:")
        context = ssl.create_default_context(cafile=newcomer / "keyhouse-example/root.pem")
        customer = HTTPSConnection("localhost", int(port), context=context)
        customer.request("POST", "/apples")
        assert customer.getresponse().read().startswith(b"apples: 1 left, receipt ")
        customer.close()
        terminal.wait_for('stock     "POST /apples HTTP/1.1" 200')

    joined = re.findall(r"  joined    (\w+)  [0-9a-f-]{36}\n", terminal.shown)
    assert sorted(joined) == ["orders", "stock"]


def test_without_the_simulation_it_says_what_to_install(newcomer: Path, wheels: Path) -> None:
    install(newcomer, wheels, "keyhouse")

    ended = subprocess.run(
        [newcomer / ".venv/bin/keyhouse", "dev"],
        cwd=newcomer,
        env=environment(newcomer),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the simulated platform is not installed" in ended.stderr
    named = re.search(r"pip install \./(\w+)$", ended.stderr, re.MULTILINE)
    assert named is not None
    described = tomllib.loads((_ROOT / named[1] / "pyproject.toml").read_text())
    assert described["project"]["name"] == "keyhouse-simulation"
    assert not (newcomer / "keyhouse-dev").exists()
