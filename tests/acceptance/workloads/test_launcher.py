"""`keyhouse run` as a process: what the program gets, and how a start ends that may not be."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from grpclib import GRPCError
from grpclib.const import Status
from support.peers.mesh import MeshPeer, coordinator_keys, pem
from support.process.launcher import ISOLATED, command, launch
from support.process.server import PATIENCE
from support.process.start import KEYHOUSE

pytestmark = pytest.mark.acceptance

OURS, THEIRS = coordinator_keys(0), coordinator_keys(1)
SECRET = b"canary-a9d2c41f"
UNVERIFIED = "--unverified-coordinator"

_SHOW = """
import json, os, resource, sys
state = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
json.dump({
    "argv": [sys.argv[0], *sys.argv[1:]],
    "env": dict(os.environ),
    "files": {name: open(name).read() for name in sys.argv[1:]},
    "fds": sorted(map(int, os.listdir("/proc/self/fd"))),
    "stdin": sys.stdin.read(),
    "signals": [state["SigIgn"], state["SigBlk"]],
    "umask": state["Umask"],
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "pid": os.getpid(),
    "python": sys.orig_argv,
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with our coordinator's root."""
    path = tmp_path_factory.mktemp("trusted") / "root.pem"
    path.write_bytes(pem(OURS.root_cert))
    return path


@pytest.mark.parametrize(
    ("keyhouse", "measured"),
    [
        ((KEYHOUSE,), {}),
        (ISOLATED, {}),
        (ISOLATED, {"KEYHOUSE_ISOLATED": "measured", "LD_LIBRARY_PATH": "/lib"}),
    ],
    ids=["as people start it", "isolated", "in an enclave"],
)
def test_program_has_what_the_manifest_says_and_nothing_of_the_launcher(
    tmp_path: Path, root: Path, keyhouse: Sequence[str], measured: Mapping[str, str]
) -> None:
    show = tmp_path / "show.py"
    show.write_text(_SHOW)
    env = {
        "KEPT": "kept \udcff",
        "REPLACED": "old",
        "PYTHONPATH": str(tmp_path),
        "SSLKEYLOGFILE": str(tmp_path / "keylog"),
        "EDG_MARBLE_TYPE": "another",
        **measured,
    }
    with MeshPeer(
        files={"conf/key": SECRET}, env={"REPLACED": SECRET, "ADDED": b"\xc3\xa9"}
    ) as peer:
        program = [sys.executable, "-S", str(show), "conf/key"]
        ended = launch(
            peer.port,
            "--root-certificate",
            str(root),
            "--",
            *program,
            folder=tmp_path,
            env=env,
            stdin="from the terminal",
            keyhouse=keyhouse,
        )

    env.pop("KEYHOUSE_ISOLATED", None)
    shown = ended.shown
    got = shown["env"]
    delivered = {name for name in got if name.startswith("MARBLE_PREDEFINED_")}
    assert len(delivered) == 4
    others = {name: value for name, value in got.items() if name not in delivered | {"LC_CTYPE"}}
    assert others == env | {"REPLACED": SECRET.decode(), "ADDED": "é"}
    assert got["MARBLE_PREDEFINED_COORDINATOR_ROOT_CA"].encode() == pem(OURS.root_cert)
    assert shown["files"] == {"conf/key": SECRET.decode()}
    assert shown["python"] == program
    assert shown["stdin"] == "from the terminal"
    assert shown["fds"][:3] == [0, 1, 2]
    assert len(shown["fds"]) == 4  # and the one that lists them
    # As they came: Python itself ignores two signals, here and there; nohup ignores another one.
    assert shown["signals"] == [ignored_here(), f"{0:016x}"]
    assert shown["pid"] == ended.pid
    assert not (tmp_path / "keylog").exists()
    assert SECRET.decode() not in ended.err
    [(request, _)] = peer.asked
    assert (tmp_path / "uuid").read_text() == request.UUID


def test_limits_and_umask_are_as_they_came(tmp_path: Path, root: Path) -> None:
    show = tmp_path / "show.py"
    show.write_text(_SHOW)
    with MeshPeer() as peer:
        words = ["--root-certificate", str(root), "--", sys.executable, str(show)]
        shell = ["sh", "-c", 'ulimit -S -c 1000; umask 031; exec "$@"', "sh"]
        done = subprocess.run(
            [*shell, *command(peer.port, *words)],
            cwd=tmp_path,
            env={},
            capture_output=True,
            timeout=60,
            check=True,
        )

    shown = json.loads(done.stdout)
    assert shown["umask"] == "0031"
    assert shown["core"][0] in {1000 * 512, 1000 * 1024}


def ignored_here() -> str:
    """Return the mask of the signals that this process ignores."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return dict(line.split(":\t") for line in lines)["SigIgn"]


_ECHO = '#!/bin/sh\necho "$0 $@"\n'


@pytest.mark.parametrize(
    ("argv", "words", "told"),
    [
        (["web", "-x"], ["./echo", "ignored"], "./echo -x"),
        ([], ["./echo", "-y"], "./echo -y"),
        (["./echo", "-z"], [], "./echo -z"),
    ],
    ids=["Argv", "command line", "Argv alone"],
)
def test_arguments_come_from_the_manifest_before_the_command_line(
    tmp_path: Path, root: Path, argv: Sequence[str], words: Sequence[str], told: str
) -> None:
    """The kernel starts a script with its path in place of ``argv[0]``."""
    (tmp_path / "echo").write_text(_ECHO)
    (tmp_path / "echo").chmod(0o700)
    with MeshPeer(argv=argv) as peer:
        ended = launch(peer.port, "--root-certificate", str(root), "--", *words, folder=tmp_path)

    assert ended.out.rstrip() == told
    assert ("replaces the arguments" in ended.err) == bool(argv and words)


def test_exit_code_and_signals_are_the_programs_own(tmp_path: Path, root: Path) -> None:
    words = ["--root-certificate", str(root), "--", "/bin/sh", "-c"]
    with MeshPeer() as peer:
        assert launch(peer.port, *words, "exit 37", folder=tmp_path).code == 37
        process = subprocess.Popen(
            command(peer.port, *words, "echo ready; exec sleep 60"),
            cwd=tmp_path,
            env={},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == -signal.SIGTERM


def test_coordinator_that_is_not_ready_is_asked_again(tmp_path: Path, root: Path) -> None:
    refusals = [
        GRPCError(Status.FAILED_PRECONDITION, "no manifest is set"),
        GRPCError(Status.UNAVAILABLE, "too busy"),
    ]
    with MeshPeer(refusals=refusals) as peer:
        ended = launch(
            peer.port, "--root-certificate", str(root), "--", "/bin/true", folder=tmp_path
        )

    assert ended.code == 0
    assert len(peer.asked) == 3
    assert "no manifest is set; trying again in" in ended.err


def test_refusal_is_told_once_with_the_coordinators_words(tmp_path: Path, root: Path) -> None:
    refusal = GRPCError(Status.PERMISSION_DENIED, "MRENCLAVE is 00ff\x1b[1m")
    with MeshPeer(refusals=[refusal]) as peer:
        ended = launch(
            peer.port, "--root-certificate", str(root), "--", "/bin/true", folder=tmp_path
        )

    assert ended.code == 1
    assert "(PERMISSION_DENIED): MRENCLAVE is 00ff\\x1b[1m" in ended.err
    assert len(peer.asked) == 1


@pytest.mark.parametrize("with_intermediate", [False, True])
def test_another_coordinator_is_not_trusted(
    tmp_path: Path, root: Path, *, with_intermediate: bool
) -> None:
    if with_intermediate:
        root = tmp_path / "chain.pem"
        root.write_bytes(pem(OURS.intermediate_cert) + pem(OURS.root_cert))
    with MeshPeer(keys=THEIRS, files={"planted": b"x"}) as peer:
        ended = launch(
            peer.port, "--root-certificate", str(root), "--", "/bin/echo", "x", folder=tmp_path
        )

    assert (ended.code, ended.out) == (4, "")
    assert "not trusted" in ended.err
    assert not (tmp_path / "planted").exists()
    assert len(peer.asked) == (0 if with_intermediate else 1)


@pytest.mark.parametrize(
    "env", [{}, {"KEYHOUSE_UNVERIFIED_COORDINATOR": "1"}], ids=["not said", "said by the host"]
)
def test_program_does_not_start_without_a_way_to_verify_the_coordinator(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    with MeshPeer(keys=THEIRS) as peer:
        ended = launch(peer.port, "--", "/bin/echo", "x", folder=tmp_path, env=env)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: the launcher needs --root-certificate or --attestation ")
    assert peer.asked == []


def test_anyone_who_answers_is_trusted_if_the_command_line_says_so(tmp_path: Path) -> None:
    with MeshPeer(keys=THEIRS) as peer:
        ended = launch(peer.port, UNVERIFIED, "--", "/bin/true", folder=tmp_path)

    assert ended.code == 0
    assert "warning: the coordinator is NOT verified" in ended.err


def test_nobody_there_is_unreachable_when_the_time_is_over(tmp_path: Path) -> None:
    ended = launch(1, UNVERIFIED, "--timeout", "1", "--", "/bin/true", folder=tmp_path)

    assert ended.code == 3
    assert "\nerror: " in ended.err
    assert "\nhint: check that the coordinator runs; check the port: the workload" in ended.err


def test_nobody_there_is_asked_again(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(1, UNVERIFIED, "--", "/bin/true"),
        cwd=tmp_path,
        env={},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "trying again" not in (line := process.stderr.readline()):
            assert line
        process.terminate()
        process.communicate(timeout=60)

    assert "cannot connect to 127.0.0.1:1: connection refused; trying again in " in line
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_launcher_ends_on_signals_while_it_waits(tmp_path: Path, number: signal.Signals) -> None:
    """In the middle of an attempt: someone has accepted the connection and says nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        subprocess.Popen(
            command(silent.getsockname()[1], UNVERIFIED, "--", "/bin/true"),
            cwd=tmp_path,
            env={},
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1)
            process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 128 + number
    assert "Traceback" not in err


def test_report_can_be_json_and_has_nothing_that_was_delivered(tmp_path: Path, root: Path) -> None:
    (tmp_path / "key").mkdir()  # in the way of the file
    with MeshPeer(files={"key": SECRET}, env={"KEY": SECRET}) as peer:
        ended = launch(
            peer.port,
            "--root-certificate",
            str(root),
            "--",
            "/bin/true",
            folder=tmp_path,
            env={"EDG_LOG_FORMAT": "JSON"},
        )

    lines = [json.loads(line) for line in ended.err.splitlines()]
    assert ended.code == 1
    assert lines[-1]["level"] == "error"
    assert "'key'" in lines[-1]["event"]
    assert {"event", "level", "timestamp"} <= set(lines[0])
    assert SECRET.decode() not in ended.err


def test_transparent_tls_stops_the_start_before_anything_is_written(
    tmp_path: Path, root: Path
) -> None:
    with MeshPeer(files={"key": SECRET}, env={"MARBLE_TTLS_CONFIG": b"{}"}) as peer:
        ended = launch(
            peer.port, "--root-certificate", str(root), "--", "/bin/true", folder=tmp_path
        )

    assert ended.code == 1
    assert "TLS tags" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["uuid"]


def test_program_that_is_not_there_is_named_and_its_files_are_taken_back(
    tmp_path: Path, root: Path
) -> None:
    with MeshPeer(files={"key": SECRET}) as peer:
        ended = launch(
            peer.port, "--root-certificate", str(root), "--", "no-such-program", folder=tmp_path
        )

    assert ended.code == 1
    assert "'no-such-program' cannot be started: no such file" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["uuid"]


def test_program_whose_path_names_nothing_is_refused_before_it_counts_as_activated(
    tmp_path: Path, root: Path
) -> None:
    with MeshPeer(files={"key": SECRET}) as peer:
        ended = launch(
            peer.port, "--root-certificate", str(root), "--", "./no-such-program", folder=tmp_path
        )

    assert ended.code == 1
    assert "'./no-such-program' cannot be started: no such file" in ended.err
    assert "joining" not in ended.err
    assert [*tmp_path.iterdir()] == []


def test_variable_that_no_program_can_have_is_named_without_its_value(
    tmp_path: Path, root: Path
) -> None:
    most = 32 * os.sysconf("SC_PAGE_SIZE")  # bytes of a variable, see execve(2)
    long = SECRET * (most // len(SECRET) + 1)
    with MeshPeer(env={"LONG": long}, files={"key": SECRET}) as peer:
        delivered = launch(
            peer.port, "--root-certificate", str(root), "--", "true", folder=tmp_path
        )
    # The launcher keeps those that it was started with under longer names, which this one exceeds.
    kept = launch(1, "--", "true", folder=tmp_path, env={"LONG": long.decode()[: most - 6]})

    for ended in (delivered, kept):
        assert ended.code == 1
        assert "the variable 'LONG'" in ended.err
        assert SECRET.decode() not in ended.err
        assert "Traceback" not in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["uuid"]
