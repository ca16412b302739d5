"""A workload as a process: a launcher that becomes the program, and is surely gone at the end."""

import contextlib
import os
import signal
import subprocess
import time
from typing import Final

from examples.demo.screen import UnexpectedError
from examples.demo.shell import Shell

__all__ = ["Workload"]

_PATIENCE: Final = 60.0  # seconds
_POLL: Final = 0.01


class Workload:
    """The process of the command ``line``, which writes to the file ``log``."""

    def __init__(self, shell: Shell, log: str, line: str) -> None:
        self._log = shell.folder / log
        with self._log.open("wb") as output:
            self._child = subprocess.Popen(  # noqa: S603 (the walk's own lines)
                ["bash", "-c", f"exec {line}"],  # noqa: S607 (found as a terminal finds it)
                cwd=shell.folder,
                env=shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C comes to the walk alone, which then ends this one
            )

    @property
    def pid(self) -> int:
        """The number of the process: of the launcher, and then of the program."""
        return self._child.pid

    def said(self) -> str:
        """Return what it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str) -> None:
        """Return once it has printed ``text``. Raises ``UnexpectedError`` if it does not."""
        begun = time.monotonic()
        while text not in self.said():
            if self._child.poll() is not None:
                raise UnexpectedError(f"a workload ended with exit code {self._child.returncode}")
            if time.monotonic() - begun > _PATIENCE:
                raise UnexpectedError(f"a workload did not print {text!r} within {_PATIENCE:.0f} s")
            time.sleep(_POLL)

    def stop(self) -> None:
        """End it, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGTERM)
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
