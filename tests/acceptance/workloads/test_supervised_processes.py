"""The supervisor as the parent of a program: exit codes, signals, orphans, and its own end."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.living.supervised import LAUNCHER, Supervised
from support.peers.mesh import MeshPeer
from support.process.server import PATIENCE, children
from support.process.tool import tool

pytestmark = pytest.mark.acceptance

SHELL = "/bin/sh"


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a coordinator whose types have no Renewal."""
    with MeshPeer(files={"conf/key": b"canary"}) as peer:
        yield peer.port


def shell(port: int, folder: Path, script: str, *words: str, **more: object) -> Supervised:
    return Supervised(port, folder / "app", *words, program=[SHELL, "-c", script], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 37", 37), ("kill -KILL $$", 128 + 9)]
)
def test_the_supervisor_ends_as_the_program_ends(
    port: int, tmp_path: Path, script: str, code: int
) -> None:
    with shell(port, tmp_path, script) as app:
        assert app.process.wait(PATIENCE) == code
        assert "has no Renewal in the manifest" in app.reported()
        assert (tmp_path / "app" / "conf" / "key").read_text() == "canary"


@pytest.mark.parametrize(
    "number",
    ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "CONT", "WINCH"],
)
def test_a_signal_goes_to_the_program(port: int, tmp_path: Path, number: str) -> None:
    script = f"trap 'echo {number}; exit 5' {number}; echo ready; while :; do sleep 0.01; done"
    with shell(port, tmp_path, script) as app:
        assert app.line() == "ready\n"
        app.process.send_signal(getattr(signal, f"SIG{number}"))
        assert app.line() == f"{number}\n"
        assert app.process.wait(PATIENCE) == 5


def test_the_program_starts_with_the_signals_of_the_launcher(port: int, tmp_path: Path) -> None:
    script = 'while read -r name mask; do case $name in Sig[BI]*) echo "$name $mask";; esac; done'
    with shell(port, tmp_path, f"{script} </proc/self/status") as app:
        assert app.line().split() == ["SigBlk:", f"{0:016x}"]
        assert app.line().split() == ["SigIgn:", f"{0:016x}"]


def test_orphans_are_reaped(port: int, tmp_path: Path) -> None:
    script = "(sh -c 'read -r _ <fifo' & echo $!) ; echo ready; read -r _ <end"
    folder = tmp_path / "app"
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    os.mkfifo(folder / "end")
    with shell(port, tmp_path, script) as app:
        orphan = int(app.line())
        assert app.line() == "ready\n"
        assert orphan in children(app.process.pid)
        (folder / "fifo").write_text("\n")
        while orphan in children(app.process.pid):
            pass
        (folder / "end").write_text("\n")
        assert app.process.wait(PATIENCE) == 0


def test_a_program_that_forks_away_ends_the_supervisor(port: int, tmp_path: Path) -> None:
    """The first process counts. The supervisor is the parent of the other process until then."""
    folder = tmp_path / "app"
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    with shell(port, tmp_path, "sh -c 'read -r _ <fifo' & exit 3") as app:
        assert app.process.wait(PATIENCE) == 3
        (folder / "fifo").write_text("\n")


def test_the_program_ends_with_a_killed_supervisor(port: int, tmp_path: Path) -> None:
    script = "trap 'echo TERM; exit' TERM; echo ready; while :; do sleep 0.01; done"
    with shell(port, tmp_path, script) as app:
        assert app.line() == "ready\n"
        app.process.kill()
        assert app.line() == "TERM\n"


def test_a_missing_program_leaves_no_file(port: int, tmp_path: Path) -> None:
    with Supervised(port, tmp_path / "app", program=["no-such-program"]) as app:
        assert app.process.wait(PATIENCE) == 1
        assert "the program 'no-such-program' cannot be started" in app.reported()
        assert not (tmp_path / "app" / "conf" / "key").exists()


def test_the_service_manager_is_notified_and_not_by_the_program(port: int, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        script = 'echo "<$NOTIFY_SOCKET$WATCHDOG_USEC>"; read -r _ <end'
        folder = tmp_path / "app"
        folder.mkdir()
        os.mkfifo(folder / "end")
        with shell(port, tmp_path, script, env=env) as app:
            assert app.line() == "<>\n"
            assert manager.recv(100) == b"READY=1"
            assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            (folder / "end").write_text("\n")
            while (message := manager.recv(100)) == b"WATCHDOG=1":
                pass
            assert message == b"STOPPING=1"


def test_process_1_reaps_and_passes_on(port: int, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes a PID namespace here")
    wrapper = [tool("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc"]
    script = "(sh -c ':' &); trap 'exit 9' TERM; echo $PPID; while :; do sleep 0.01; done"
    with shell(port, tmp_path, script, wrapper=wrapper) as app:
        assert app.line() == "1\n"
        (launcher,) = children(app.process.pid)
        os.kill(launcher, signal.SIGTERM)
        assert app.process.wait(PATIENCE) == 9


def test_an_anchor_with_an_intermediate_is_refused(tmp_path: Path) -> None:
    from support.peers.mesh import coordinator_keys, pem

    keys = coordinator_keys(0)
    file = tmp_path / "chain.pem"
    file.write_bytes(pem(keys.intermediate_cert) + pem(keys.root_cert))
    words = ["--type", "app", "--supervise", "--root-certificate", str(file), "--", "/bin/true"]
    ended = subprocess.run(
        [*LAUNCHER, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "intermediate certificate" in ended.stderr


def test_the_agent_is_not_in_the_way_of_another_interpreter(port: int, tmp_path: Path) -> None:
    """Variables of Python reach the program, although the launcher ignores them."""
    script = "import os, sys; print(os.environ['PYTHONSTARTUP'], sys.flags.isolated)"
    with Supervised(
        port,
        tmp_path / "app",
        program=[sys.executable, "-c", script],
        env={"PYTHONSTARTUP": "mine"},
    ) as app:
        assert app.line() == "mine 0\n"
