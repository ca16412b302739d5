"""Runs ``keyhouse run --supervise`` as a real process; reads reports and the program's lines."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from support.process.server import PATIENCE

__all__ = ["PROGRAM", "Supervised", "living_type"]

LAUNCHER: Final = (sys.executable, "-I", "-B", "-m", "keyhouse.launcher")

PROGRAM: Final = """
import hashlib, json, os, signal, ssl, sys, threading

def state(event):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain("tls.pem", "tls.key")
    except (OSError, ssl.SSLError) as error:
        event = f"{event} {error}"
    files = {
        name: hashlib.sha256(open(name, "rb").read()).hexdigest()
        for name in sorted(os.listdir(".")) if os.path.isfile(name)
    }
    env = {name: os.environ.get(name, "") for name in ("PLAIN", "NOTIFY_SOCKET", "SHOWN")}
    token = open("token").read() if os.path.exists("token") else ""
    line = {"event": event, "pid": os.getpid(), "env": env, "argv": sys.argv[1:], "files": files,
            "token": token, "parent": os.getppid()}
    print(json.dumps(line), flush=True)

arrived = []
reading, writing = os.pipe()
os.set_blocking(writing, False)
for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
    signal.signal(number, lambda *_: None)
signal.set_wakeup_fd(writing)
state("started")
while True:
    for number in os.read(reading, 100):
        state(signal.Signals(number).name)
"""
"""A program: it prints its state at the start and after each signal."""


def living_type(**renewal: Any) -> dict[str, Any]:
    """Return a renewable marble type for ``PROGRAM``."""
    return {
        "Package": "app",
        "Renewal": renewal,
        "Parameters": {
            "Files": {
                "tls.pem": "{{ pem .MarbleRun.MarbleCert.Cert }}",
                "tls.key": "{{ pem .MarbleRun.MarbleCert.Private }}",
                "roots.pem": "{{ pem .MarbleRun.RootCA.Cert }}",
                "token": "{{ hex .Secrets.key0 }}",
            },
            "Env": {"PLAIN": "text"},
        },
    }


class Supervised:
    """A supervised program in ``folder``; the end of the context ends the program."""

    def __init__(
        self,
        port: int,
        folder: Path,
        *words: str,
        program: Sequence[str] = (sys.executable, "-S", "-c", PROGRAM),
        env: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        given = ["--coordinator", f"127.0.0.1:{port}", "--type", "app", "--supervise"]
        if "--root-certificate" not in words:
            given.append("--unverified-coordinator")
        self.reports = folder.parent / f"{folder.name}.log"
        self._log = self.reports.open("ab")
        self.process = subprocess.Popen(
            [*wrapper, *LAUNCHER, *given, *words, "--", *program],
            cwd=folder,
            env={"PATH": os.environ["PATH"], **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,))
        self._reader.start()

    def _read(self, output: IO[bytes]) -> None:
        for line in output:
            self._lines.put(line.decode())
        self._lines.put("")

    def line(self) -> str:
        """Return the next line of the program, or nothing after the last line."""
        try:
            return self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(self.reported()) from None

    def state(self, event: str) -> Any:
        """Return the next state of ``PROGRAM`` with ``event``."""
        while line := self.line():
            state = json.loads(line)
            if state["event"] == event:
                return state
        raise AssertionError(f"the program has ended: {self.reported()}")

    def reports_until(self, text: str, count: int = 1) -> None:
        """Wait until the launcher has reported ``text`` ``count`` times."""
        deadline = time.monotonic() + PATIENCE
        while self.reported().count(text) < count:
            assert self.process.poll() is None, self.reported()
            assert time.monotonic() < deadline, self.reported()
            time.sleep(0.01)  # the file of a different process signals no event

    def reported(self) -> str:
        """Return the reports of the launcher so far."""
        return self.reports.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the launcher; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
