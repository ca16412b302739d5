"""Start a real coordinator that records its function calls."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, TypeVar

from support.process.server import Server
from support.process.start import Started

__all__ = ["Calls", "RecordedServer"]

T = TypeVar("T")
Calls = dict[str, list[str]]
"""The called functions by module, both in the order of their first calls."""

_RECORDER: Final = Path(__file__).with_name("recorder.py")
_SERVES: Final = "serving the Client API"


class RecordedServer(Server):
    """A coordinator that records its calls. ``started`` has the calls of the newest start."""

    started: Calls
    _starts = 0

    def recorded(self, work: Callable[[], T]) -> tuple[Calls, T]:
        """Return the calls of the coordinator during ``work``, and the result of ``work``."""
        self._ask("begin")
        done = work()
        return self._ask("end"), done

    def _start(self, log: IO[bytes]) -> Started:
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            _, _, *arguments = self._command  # the recorder serves in place of `keyhouse serve`
            process = subprocess.Popen(
                [sys.executable, "-I", "-B", str(_RECORDER), str(number), *arguments],
                stdout=log,
                stderr=log,
                env=self._environment,
                pass_fds=[number],
            )
        self._control = ours
        return process

    def _wait(self, process: Started) -> None:
        # A test connection to the port would be a part of the recording, so this reads the log.
        deadline = time.monotonic() + self.patience
        self._starts += 1
        while self.logged().count(_SERVES) < self._starts:
            assert process.poll() is None, self.logged()[-4000:]
            assert time.monotonic() < deadline, self.logged()[-4000:]
            time.sleep(0.005)  # the log of a separate process has no event for a wait
        self.started = self._ask("end")

    def _ask(self, word: str) -> Calls:
        self._control.sendall(f"{word}\n".encode("ascii"))
        with self._control.makefile("r", encoding="ascii") as lines:
            found: Calls = json.loads(lines.readline())
        return found

    def stop(self) -> int:
        """Stop the process, and return the exit code."""
        try:
            return super().stop()
        finally:
            self._control.close()
