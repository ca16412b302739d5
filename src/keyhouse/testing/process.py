"""A workload as a process: a launcher that executes the program."""

import signal
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PATIENCE: Final = 60.0  # seconds, chosen: a start on a loaded machine takes a few
_GRACE: Final = 10.0  # seconds, chosen


class Ended(NamedTuple):
    """The exit code and the output of a launcher, or of the program that replaced the launcher.

    Exit codes of the launcher: 1 refused, 3 coordinator unreachable, 4 trust failed.
    """

    code: int
    output: str
    errors: str


class Joined:
    """A started launcher. ``process`` has text pipes for output and errors."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process: Final = process

    def wait(self, timeout: float = _PATIENCE) -> Ended:
        """Wait ``timeout`` seconds for the end. Raises ``subprocess.TimeoutExpired``."""
        output, errors = self.process.communicate(timeout=timeout)
        return Ended(self.process.returncode, output, errors)

    def stop(self) -> None:
        """End the process, if it has not ended, and close its pipes."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        with self.process:
            pass


def start(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> Joined:
    """Start ``keyhouse run`` with the arguments ``words`` and only the variables ``env``.

    ``folder`` is the working directory.
    """
    program = Path(sysconfig.get_path("scripts")) / "keyhouse"
    process = subprocess.Popen(  # noqa: S603 the test's own words
        [program, "run", *words],
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Joined(process)
