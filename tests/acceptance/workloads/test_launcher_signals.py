"""A signal at any step of the launcher leaves no secret behind, or the program runs.

A child per step: it becomes a program as `keyhouse run` does, and sends itself the signal at that
step of the code that writes the files. No verdict depends on the moment at which a signal comes.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import pytest

from keyhouse.base import durable_files
from keyhouse.base.secret import Secret
from keyhouse.launcher import Program, command, files, program, stop_signals
from keyhouse.launcher.command import become
from keyhouse.launcher.reports import ProgressReport
from keyhouse.launcher.stop_signals import end_on_sigterm

pytestmark = pytest.mark.acceptance

_FILES: Final = {f"conf{number}/key": Secret(b"canary-of-a-file") for number in range(2)}
_WATCHED: Final = {
    module.__file__ for module in (command, stop_signals, durable_files, files, program)
}
_STARTED, _NEVER = 0, 97


def _steps_into(step: int, number: int) -> Callable[[FrameType, str, object], None]:
    """Return a profile function: at its ``step``-th event in the watched code it sends a signal."""
    left = step

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        del event, argument
        if frame.f_code.co_filename in _WATCHED:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)

    return profile


def _launch(step: int, number: int, ready: int) -> NoReturn:
    """Be a launcher that gets the signal at ``step``; the program writes to ``ready``."""
    for each in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_on_sigterm()
    os.dup2(ready, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    shell = Program(b"/bin/sh", (b"sh", b"-c", b"echo runs"), {})
    code = _NEVER
    try:
        sys.setprofile(_steps_into(step, number))
        become(shell, _FILES, ProgressReport(as_json=False))
    except SystemExit as end:
        code = int(str(end.code))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    finally:
        sys.setprofile(None)
        os._exit(code)


def _ended(step: int, number: int) -> tuple[int, bool]:
    """Return how a launcher ended that got the signal at ``step``, and whether the program ran."""
    reading, ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _launch(step, number, ready)
    os.close(ready)
    with os.fdopen(reading, "rb") as pipe:
        has_run = bool(pipe.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), has_run


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM], ids=lambda n: n.name
)
def test_a_signal_at_any_step_leaves_no_file_or_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.chdir(tmp_path)
    ends: list[tuple[int, bool]] = []
    while not ends or not ends[-1][1]:
        ends.append(_ended(len(ends) + 1, number))
        code, has_run = ends[-1]
        left = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        if has_run:
            assert (code, len(left)) == (_STARTED, len(_FILES))
        else:
            assert left == [], f"at step {len(ends)}"
            assert code in {128 + number, -number}
    assert len(ends) > 100  # the code has so many steps
