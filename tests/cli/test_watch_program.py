"""The program of `keyhouse watch --exec`: what it gets, and that it cannot hold the watch up."""

import os
from pathlib import Path

import pytest
from support.process.command_tree import typed

from keyhouse.base.errors import RefusedError
from keyhouse.cli.watch.reporter import Reporter, run_program


def program(folder: Path, *lines: str) -> Path:
    path = folder / "program"
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o700)
    return path


def test_it_gets_the_alert_and_its_failure_is_told(tmp_path: Path) -> None:
    kept = tmp_path / "alert"
    told = program(tmp_path, f"cat > {kept}; exit $(wc -l < {kept})")
    assert run_program(told, b"{}", 60) == ""
    assert kept.read_bytes() == b"{}"
    assert run_program(told, b"{}\n", 60) == f"{told} ended with code 1"
    assert run_program(program(tmp_path, "exit 0"), b"x" * 1_000_000, 60) == ""
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(RefusedError, match=str(missing)):
            run_program(missing, b"", 60)


def test_one_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    # The shell and its child hold the pipe for as long as they live.
    hangs = program(tmp_path, f"exec 3> {pipe}", "sleep 100000 &", "wait")
    for content in (b"{}", b"x" * 1_000_000):  # more than it ever reads
        assert (
            run_program(hangs, content, 0.5)
            == f"{hangs} did not end within 0.5 s, and the command killed it"
        )
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""
        os.set_blocking(reader, False)
    os.close(reader)


def test_a_limit_of_no_program_is_refused() -> None:
    ended = typed("watch", "localhost", "--attestation", "a", "--exec-timeout", "5", "--once")
    assert ended.exit_code == 2
    assert "--exec-timeout" in ended.stderr


def test_one_that_cannot_be_run_is_refused_before_the_first_alert(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    for missing in (tmp_path / "none", tmp_path, plain):
        with pytest.raises(RefusedError, match=f"{missing}: .*program"):
            Reporter(missing, 30, as_json=False)
    Reporter(program(tmp_path, "exit 0"), 30, as_json=False)
