"""The process of the coordinator: start, kill and restart. The process always ends at the end."""

import contextlib
import os
import signal
import subprocess
import time
from types import TracebackType
from typing import Final, Self

from examples.demo.ports import free_port
from examples.demo.screen import UnexpectedError
from examples.demo.shell import Shell

__all__ = ["CoordinatorProcess"]

_PATIENCE: Final = 60.0  # seconds
_POLL: Final = 0.01
_GRACE: Final = 15.0
_SERVING: Final = b'"serving the Client API"'


class CoordinatorProcess:
    """One coordinator with the state directory ``state``. Leaving the context ends its process."""

    def __init__(self, shell: Shell, port: int, state: str = "state") -> None:
        self.port: Final = port
        self.mesh_port: Final = free_port()
        self.words: Final = (
            "keyhouse",
            "serve",
            *("--platform", "simulation"),
            *("--data-dir", state),
            *("--client-addr", f"127.0.0.1:{port}"),
            *("--mesh-addr", f"127.0.0.1:{self.mesh_port}"),
        )
        self._shell = shell
        self._log = shell.folder / f"{state}.log"
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> float:
        """Start the coordinator; return the seconds until it serves the Client API.

        Raises:
            UnexpectedError: the process ended, or does not serve after 60 seconds.
        """
        begun = time.monotonic()
        with self._log.open("wb") as log:
            child = self._child = subprocess.Popen(  # noqa: S603 (fixed words)
                self.words,
                executable=self._shell.bin / "keyhouse",
                cwd=self._shell.folder,
                env=self._shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches only the demo. The demo then stops this process.
                start_new_session=True,
            )
        while _SERVING not in self._log.read_bytes():
            if child.poll() is not None:
                raise UnexpectedError("the coordinator ended at its start")
            if time.monotonic() - begun > _PATIENCE:
                raise UnexpectedError(f"the coordinator does not serve after {_PATIENCE:.0f} s")
            time.sleep(_POLL)
        return time.monotonic() - begun

    @property
    def pid(self) -> int:
        """The process id; 0 if no process runs."""
        return self._child.pid if self._child else 0

    def kill(self) -> int:
        """Kill the process with SIGKILL; return its exit code."""
        return self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop the process group with SIGTERM, after 15 s with SIGKILL; return the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        try:
            _signal_group(child.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE)
        finally:  # also after a second Ctrl-C during the wait
            if child.poll() is None:
                _signal_group(child.pid, signal.SIGKILL)
                child.wait()
        return child.returncode

    def last_words(self) -> str:
        """Return the end of the log, with the exit code if the process has ended by itself."""
        log = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        code = self._child.poll() if self._child else None
        ended = "" if code is None else f"\n(the process has ended with exit code {code})"
        return log[-1000:].strip() + ended


def _signal_group(leader: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, how)
