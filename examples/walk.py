"""Runs one example in a temporary directory, and removes the directory at the end."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from examples.demo.screen import Screen, UnexpectedError

__all__ = ["play"]

_FAILED: Final = 1
_INTERRUPTED: Final = 130


def play(title: str, steps: Callable[[Screen, Path], None]) -> int:
    """Run ``steps``; return 0, 1 if a claim of a step is false, or 130 after an interrupt.

    ``steps`` receives the screen, and the path of a folder that does not exist yet.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ended)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    screen = Screen(sys.stdout, colour=colour, pause="--pause" in sys.argv[1:])
    screen.say(f"{title} Each line after $ is a command that runs. OK marks a checked result.")
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-example-") as folder:
            steps(screen, Path(folder) / "cluster")
    except UnexpectedError as problem:
        sys.stdout.flush()
        sys.stderr.write(f"\nerror: {problem}\n")
        return _FAILED
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; all processes are stopped, all files are removed\n")
        return _INTERRUPTED
    sys.stdout.write("\nAll processes are stopped, and all files are removed.\n")
    return 0


def _ended(number: int, _frame: FrameType | None) -> NoReturn:
    # An exception leaves all contexts, so they stop the processes and remove the files.
    raise SystemExit(128 + number)
