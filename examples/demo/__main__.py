"""``python -m examples.demo``: run all steps in a temporary directory, then remove it."""

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
All processes are stopped, and all files are removed. To continue by yourself:

  .venv/bin/keyhouse dev

The command prints the next commands for a second terminal.

The manifest of this demo: examples/demo/manifest.json.
The cluster of the last steps: examples/ordering.
Read next: docs/tutorial/index.md.
"""


def main() -> int:
    """Run the demo; return 0, 1 if a claim of a step is false, or 130 after an interrupt."""
    options = _options()
    # A shell starts a background job with SIGINT ignored. Restore the handler, so SIGINT ends
    # the demo.
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
    except BrokenPipeError:  # nobody reads the output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; all processes are stopped, all files are removed\n")
        return _INTERRUPTED
    return 0


def _play(screen: Screen, folder: Path) -> None:
    shell = Shell(folder)
    port = free_port()
    caller = Caller(shell, port)
    screen.say(
        "Keyhouse: a demo of the main tasks of a coordinator, with real processes and requests."
    )
    screen.say(
        "Each line after $ is a command that runs. OK marks a checked result. Long answers are cut"
        " (...). The demo shows one HTTP header: Keyhouse-State, the position in the journal."
    )
    screen.say("To run commands yourself in another terminal, type there first:")
    screen.command(f"cd {folder}")
    screen.command(f"PATH={shell.bin}:$PATH")
    if not caller.has_curl:
        screen.say("curl is not installed: Python sends the same requests as the curl lines.")
    with CoordinatorProcess(shell, port) as coordinator:
        stage = Stage(screen, shell, caller, coordinator)
        try:
            _walk(stage)
        except (UnexpectedError, KeyhouseError) as problem:
            raise UnexpectedError(
                f"{problem}\n\nThe coordinator's log ends:\n{coordinator.last_words()}"
            ) from problem
        screen.wait("Enter: stop all processes and remove all files ")


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
        prog="scripts/demo", description="Show the main tasks of a coordinator, step by step."
    )
    parser.add_argument(
        "--pause",
        action=argparse.BooleanOptionalAction,
        help="wait for a key before each step (default: on a terminal)",
    )
    return parser.parse_args()


def _ended(number: int, _frame: FrameType | None) -> NoReturn:
    # An exception leaves all contexts, so they stop the processes and remove the files.
    raise SystemExit(128 + number)


def _failed(problem: str) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"\nerror: {problem}\n")
    sys.stderr.write("hint: the demo ended here; all processes are stopped, all files removed\n")
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
