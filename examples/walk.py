"""Plays an example by itself, in a temporary directory that is gone afterwards."""

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
    """Let ``steps`` play; return 0, or 1 if anything was not as they claim, 130 if interrupted.

    They get the screen, and a folder that is to be made.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ended)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    screen = Screen(sys.stdout, colour=colour, pause="--pause" in sys.argv[1:])
    screen.say(f"{title} Each line after $ is what runs; OK stands before what was checked.")
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-example-") as folder:
            steps(screen, Path(folder) / "cluster")
    except UnexpectedError as problem:
        sys.stdout.flush()
        sys.stderr.write(f"\nerror: {problem}\n")
        return _FAILED
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; everything is stopped and removed\n")
        return _INTERRUPTED
    sys.stdout.write("\nEverything is stopped and removed.\n")
    return 0


def _ended(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # unwinds, so that everything is stopped and removed
