"""The demo as a person starts it: it shows every step, fails when it must, and leaves nothing."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from support.process.start import warm_python

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "examples.demo"]
TOOLS = ("bash", "base64", "cp", "diff", "env", "mkdir", "rm", "sed", "tail")
STEPS = (
    "Start a coordinator",
    "Ask how it is",
    "Pin its certificate",
    "Check a manifest",
    "Set the manifest",
    "Read it back",
    "Carol reads what the coordinator has generated",
    "Bob and anonymous clients cannot",
    "Bob uploads the secrets that only he has",
    "See what has happened",
    "Two of three change the manifest",
    "Kill it in the middle of its work",
    "Lose its key, and recover",
    "Carry its disk to another machine",
    "Start a cluster",
    "Buy something",
    "Try it without being a marble",
    "Join with another program",
    "Give each instance a key of its own",
)

pytestmark = pytest.mark.acceptance


def environment(folder: Path, path: str = os.environ["PATH"]) -> dict[str, str]:
    return {"PATH": path, "TMPDIR": str(folder)}


def warm(folder: Path) -> list[str]:
    """Return the command in an environment that is this one, but for a warm ``keyhouse``."""
    return [warm_python(folder / "environment"), "-m", "examples.demo"]


def run(
    folder: Path, path: str = os.environ["PATH"], command: Sequence[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(folder, path),
        capture_output=True,
        check=False,
        text=True,
    )


def tools(folder: Path) -> Path:
    """Return a directory with what the demo's lines need, but without curl."""
    found = folder / "tools"
    found.mkdir()
    for name in TOOLS:
        where = shutil.which(name)
        assert where is not None
        (found / name).symlink_to(where)
    return found


def coordinators_of(output: str) -> list[str]:
    """Return the command lines of running processes that serve at an address in ``output``.

    By the command line, because the process hides everything else from its own user.
    """
    addresses = set(re.findall(r"--client-addr (127\.0\.0\.1:\d+)", output))
    assert addresses, output
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            found.append((process / "cmdline").read_bytes().decode(errors="replace"))
    return [line for line in found if addresses & set(line.split("\0"))]


def assert_nothing_is_left(folder: Path, output: str) -> None:
    assert not coordinators_of(output)
    assert not list(folder.glob("keyhouse-demo-*"))


def output_until(demo: "subprocess.Popen[str]", step: int) -> str:
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if line.startswith(f"--- {step}."):
            break
    return "".join(lines)


def test_demo_shows_and_checks_every_step_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, command=warm(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert re.findall(r"^--- \d+\. (.*?) -*$", done.stdout, re.MULTILINE) == list(STEPS)
    assert done.stderr == ""
    narrow = [line for line in done.stdout.splitlines() if str(tmp_path) not in line]
    assert max(map(len, narrow)) <= 100
    assert "\x1b" not in done.stdout
    for part in re.split(r"^--- \d+\. ", done.stdout, flags=re.MULTILINE)[1:]:
        assert re.search(r"^  \$ (keyhouse|curl|python|kill|env -C) ", part, re.MULTILINE), part
        assert re.search(r"^  OK ", part, re.MULTILINE), part
    assert_nothing_is_left(tmp_path, done.stdout)


def test_demo_on_a_terminal_shows_one_step_for_each_key(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=environment(tmp_path), stdin=theirs, stdout=theirs, stderr=theirs
    ) as demo:
        os.close(theirs)
        first = shown_until_asked(ours)
        os.write(ours, b"\n")
        second = shown_until_asked(ours)
        os.write(ours, b" ")
        third = shown_until_asked(ours)
        os.write(ours, b"q")
        code = demo.wait(timeout=60)
    os.close(ours)

    assert "--- " not in first
    assert [STEPS[0] in second, STEPS[1] in second] == [True, False]
    assert [STEPS[1] in third, STEPS[2] in third] == [True, False]
    assert code == 130
    assert_nothing_is_left(tmp_path, second)


def shown_until_asked(terminal: int) -> str:
    """Return what the demo has shown since the last key, up to its question for the next."""
    shown = b""
    while not shown.endswith(b"q: quit \x1b[0m"):
        shown += os.read(terminal, 4096)
    return shown.decode()


def test_demo_without_curl_makes_the_same_requests_and_says_so(tmp_path: Path) -> None:
    """Until it is stopped it has made every kind of request: by nobody, by a user, with a body."""
    last = STEPS.index("Two of three change the manifest") + 1
    with subprocess.Popen(
        warm(tmp_path),
        cwd=ROOT,
        env=environment(tmp_path, str(tools(tmp_path))),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        output = output_until(demo, last)
        demo.send_signal(signal.SIGINT)
        rest, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130, output[-2000:] + errors
    assert "curl is not installed" in output
    assert re.findall(r"^--- \d+\. (.*?) -*$", output, re.MULTILINE) == list(STEPS[:last])
    assert "$ curl" not in rest
    assert_nothing_is_left(tmp_path, output)


def test_demo_fails_when_an_answer_is_not_the_expected_one(tmp_path: Path) -> None:
    lying = tools(tmp_path) / "curl"
    lying.write_text(
        "#!/bin/bash\n"
        r"""printf 'HTTP/1.1 200 OK\r\n\r\n{"status":"success","data":{"code":3}}'"""
    )
    lying.chmod(0o755)
    done = run(tmp_path, str(lying.parent))
    assert done.returncode == 1
    assert "error: this does not hold: curl reaches it" in done.stderr
    assert "serving the Client API" in done.stderr  # the coordinator's log
    assert_nothing_is_left(tmp_path, done.stdout)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_demo_stopped_half_way_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        output = output_until(demo, 3)
        assert coordinators_of(output)
        demo.send_signal(number)
        demo.communicate(timeout=60)
    assert demo.returncode == code
    assert_nothing_is_left(tmp_path, output)


def test_demo_whose_reader_leaves_ends_and_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        output = output_until(demo, 2)
        demo.stdout.close()
        errors = demo.stderr.read()
    assert demo.returncode == 1
    assert errors == ""
    assert_nothing_is_left(tmp_path, output)
