"""``python -m examples.demo``: the whole walk, in a temporary directory that is gone afterwards."""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from examples.demo.access import read_as_carol, read_as_others, see_the_log, upload_as_bob
from examples.demo.calls import Caller
from examples.demo.crash import crash_it
from examples.demo.disk import carry_it_away
from examples.demo.ports import free_port
from examples.demo.process import CoordinatorProcess
from examples.demo.recovery import recover_it
from examples.demo.screen import Screen, UnexpectedError
from examples.demo.setting import check_it, read_it_back, set_it
from examples.demo.shell import Shell
from examples.demo.stage import Stage
from examples.demo.trust import pin_it, start_it, verify_it
from examples.demo.updating import update_it
from examples.ordering.steps import show as show_a_cluster
from keyhouse.base.errors import KeyhouseError

_FAILED: Final = 1
_INTERRUPTED: Final = 130

_FURTHER: Final = """
Everything is stopped and removed. To continue by yourself:

  .venv/bin/keyhouse dev

It prints what to type next in another terminal.

The manifest of this demo: demo/manifest.json. The cluster of the last steps: examples/ordering.
Read next: docs/tutorial/index.md.
"""


def main() -> int:
    """Run the demo; return 0, or 1 if anything was not as it claims, 130 after an interrupt."""
    options = _options()
    # Shells start background jobs with SIGINT ignored; this one ends by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ended)
    screen = Screen(
        sys.stdout,
        colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        pause=_at_a_terminal() if options.pause is None else options.pause,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-demo-") as folder:
            _play(screen, Path(folder))
        sys.stdout.write(_FURTHER)
        sys.stdout.flush()
    except UnexpectedError as problem:
        return _failed(str(problem))
    except BrokenPipeError:  # the reader of the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; everything is stopped and removed\n")
        return _INTERRUPTED
    return 0


def _play(screen: Screen, folder: Path) -> None:
    shell = Shell(folder)
    port = free_port()
    caller = Caller(shell, port)
    screen.say(
        "Keyhouse: a walk through a coordinator's main job, with real processes and requests."
    )
    screen.say(
        "Each line after $ is what runs. OK stands before what was checked. Long answers are cut"
        " (...); of the HTTP headers only Keyhouse-State is shown, the position in the journal."
    )
    screen.say("To type along in another terminal, first type there:")
    screen.command(f"cd {folder}")
    screen.command(f"PATH={shell.bin}:$PATH")
    if not caller.has_curl:
        screen.say("curl is not installed: Python makes the requests of the curl lines, unchanged.")
    with CoordinatorProcess(shell, port) as coordinator:
        stage = Stage(screen, shell, caller, coordinator)
        try:
            _walk(stage)
        except (UnexpectedError, KeyhouseError) as problem:
            raise UnexpectedError(
                f"{problem}\n\nThe coordinator's log ends:\n{coordinator.last_words()}"
            ) from problem
        screen.wait("Enter: stop and remove everything ")


def _walk(stage: Stage) -> None:
    start_it(stage)
    verify_it(stage)
    trusted = pin_it(stage)
    holders = check_it(stage)
    set_it(stage, holders)
    read_it_back(stage, trusted)
    read_as_carol(stage)
    read_as_others(stage)
    upload_as_bob(stage)
    see_the_log(stage)
    update_it(stage, trusted)
    crash_it(stage, trusted)
    recover_it(stage, trusted)
    carry_it_away(stage, trusted)
    show_a_cluster(stage.screen, stage.shell.folder / "shop")


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Walk through a coordinator's main job."
    )
    parser.add_argument(
        "--pause",
        action=argparse.BooleanOptionalAction,
        help="wait for a key before each step; usual on a terminal",
    )
    return parser.parse_args()


def _ended(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # unwinds, so that everything is stopped and removed


def _failed(problem: str) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"\nerror: {problem}\n")
    sys.stderr.write("hint: the demo stopped here; everything is stopped and removed\n")
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
