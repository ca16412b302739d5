"""The examples as a person starts them: each shows and checks its steps, and leaves nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.process.start import warm_python

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.acceptance


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}


def _play(example: str, folder: Path) -> str:
    python = warm_python(folder / "environment")
    folder = folder / "temporary"
    folder.mkdir()
    done = subprocess.run(
        [python, "-m", f"examples.{example}"],
        cwd=ROOT,
        env=_environment(folder),
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stderr == ""
    _assert_nothing_is_left(folder, done.stdout)
    return done.stdout


def _assert_nothing_is_left(folder: Path, shown: str) -> None:
    """By the command lines, because the coordinator hides the rest even from its own user."""
    assert not list(folder.iterdir())
    addresses = set(re.findall(r"127\.0\.0\.1:\d+", shown))
    assert addresses
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            assert addresses.isdisjoint(words)


def test_services_know_each_other_and_nobody_else(tmp_path: Path) -> None:
    shown = _play("ordering", tmp_path)

    assert re.findall(r"^--- \d+\. (.*?) -*$", shown, re.MULTILINE) == [
        "Start a cluster",
        "Buy something",
        "Try it without being a marble",
        "Join with another program",
        "Give each instance a key of its own",
    ]
    assert "apples: 1 left, receipt " in shown
    assert "peer did not return a certificate" in shown
    assert "certificate verify failed" in shown
    assert "HTTP/1.0 403" in shown
    assert "not a receipt of mine" in shown
    assert "NOT verified" not in shown  # each launcher knew who to trust


def test_unmodified_redis_gets_all_it_needs_from_the_manifest(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None and "CI" not in os.environ:
        pytest.skip("redis-server is not installed: see examples/redis/README.md")

    shown = _play("redis", tmp_path)

    assert "connected to redis.example.com with TLSv1.3" in shown
    assert "GET gives hello from a workload" in shown
    assert "NOAUTH" in shown
    assert re.findall(r"600 redis/(.*)", shown) == ["redis.conf", "tls.key", "tls.pem"]


def test_example_stopped_half_way_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.ordering"],
        cwd=ROOT,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as example:
        assert example.stdout is not None
        shown = ""
        for line in example.stdout:
            shown += line
            if line.startswith("--- 2."):
                break
        example.send_signal(signal.SIGINT)
        example.communicate(timeout=60)

    assert example.returncode == 130
    _assert_nothing_is_left(tmp_path, shown)


@pytest.mark.parametrize("example", ["ordering", "redis"])
def test_each_example_has_its_script_and_its_page(example: str) -> None:
    folder = ROOT / "examples" / example

    assert (folder / "run").stat().st_mode & 0o111
    assert f"examples/{example}/run" in (folder / "README.md").read_text(encoding="utf-8")
