"""Terminals of tests: a shell for typed commands, and a single command with its colours."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from support.process.server import children
from support.process.start import start

__all__ = ["Terminal", "on_a_terminal"]

_SERVES: Final = ("serving the Client API", "serving at port", "Ctrl-C ends the coordinator.")
_DONE: Final = "--- typed ---"


class Terminal:
    """A shell in ``folder`` that stops at the first failed command. ``shown``: all output."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "-e"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.interrupt()

    def type(self, commands: str) -> None:
        """Type ``commands``; return when they end, or when a program serves."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{commands}echo '{_DONE}'\n")
        self._shell.stdin.flush()
        self.wait_for(*_SERVES)

    def stop(self) -> None:
        """Press Ctrl-C for the serving program; the shell stays."""
        for process in children(self._shell.pid):
            os.kill(process, signal.SIGINT)
        self.wait_for()

    def wait_for(self, *words: str) -> None:
        """Return when a line contains one of ``words``, or when the typed commands have ended."""
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self.shown += line
            if line.endswith(f"{_DONE}\n"):  # may follow a manifest without a newline at its end
                return
            if any(word in line for word in words):
                return
        raise AssertionError(f"the shell has ended:\n{self.shown[-3000:]}")

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the end of the shell."""
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGINT)
        self._shell.communicate(timeout=60)


def on_a_terminal(
    *words: str, environment: Mapping[str, str], folder: Path | None = None, keys: str = ""
) -> tuple[int, str]:
    """Run ``keyhouse`` on a terminal; return its exit code and the terminal's output.

    ``keys``: input at the terminal; empty: standard input is not the terminal.
    """
    ours, theirs = os.openpty()
    os.write(ours, keys.encode())
    with os.fdopen(theirs, "r+b", buffering=0) as terminal:
        process = start(
            words,
            stdin=terminal if keys else subprocess.DEVNULL,
            output=terminal,
            errors=terminal,
            environment={"TERM": "xterm", **environment},
            folder=folder,
        )
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the terminal closed with the process
        pass
    os.close(ours)
    return process.wait(60), shown.decode()
