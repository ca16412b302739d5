"""The process of a workload: first the launcher, then the program in the same process."""

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
    """The process of the command ``line``. Its output is in the file ``log``."""

    def __init__(self, shell: Shell, log: str, line: str) -> None:
        self._log = shell.folder / log
        with self._log.open("wb") as output:
            self._child = subprocess.Popen(  # noqa: S603 (fixed lines of the example)
                ["bash", "-c", f"exec {line}"],  # noqa: S607 (a terminal also uses PATH)
                cwd=shell.folder,
                env=shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C reaches only the example. The example then stops this process.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id. It is the same for the launcher and for the program."""
        return self._child.pid

    def said(self) -> str:
        """Return the output of the process until now."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until the output contains ``text``.

        Raises:
            UnexpectedError: the process ended, or 60 seconds passed, without ``text``.
        """
        begun = time.monotonic()
        while text not in self.said():
            if self._child.poll() is not None:
                raise UnexpectedError(f"a workload ended with exit code {self._child.returncode}")
            if time.monotonic() - begun > _PATIENCE:
                raise UnexpectedError(f"a workload did not print {text!r} within {_PATIENCE:.0f} s")
            time.sleep(_POLL)

    def stop(self) -> None:
        """Stop the process group with SIGTERM, and after 10 seconds with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGTERM)
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
