"""Processes under measurement: each on a processor of its own, ended by the one who started it."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

__all__ = ["Memory", "Process", "Processors", "TroubleError", "pinned", "until_answered"]

_PATIENCE_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.0005


class TroubleError(Exception):
    """Why there is nothing to measure. The text is for the person at the terminal."""


class Processors(msgspec.Struct, frozen=True):
    """Which processor the servers get, and which the load and the runner itself get.

    Both are the same where only one may be used: then the two take time from each other.
    """

    server: int
    load: int

    @classmethod
    def available(cls) -> "Processors":
        """Return the first two processors that this process may use."""
        usable = sorted(os.sched_getaffinity(0))
        return cls(server=usable[0], load=usable[min(1, len(usable) - 1)])

    @property
    def shared(self) -> bool:
        """Whether server and load have to share one."""
        return self.server == self.load


@contextlib.contextmanager
def pinned(processor: int | None) -> Iterator[None]:
    """Run what is started in this block, and the block, on one processor; None: on any.

    A child inherits it before its first instruction, so no thread of it can be elsewhere.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if processor is None else {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of a process, in KiB: now, and at most so far."""

    now: int
    peak: int


class Process:
    """A child process whose output goes to a file. Leaving the context ends it.

    With ``speaks`` its standard output is read by ``first_line`` instead.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        processor: int | None,
        log: Path,
        speaks: bool = False,
        folder: Path | None = None,
    ) -> None:
        self._log_path = log
        self._log: IO[bytes] = log.open("ab")
        with pinned(processor):
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if speaks else self._log,
                stderr=self._log,
                cwd=folder,
                start_new_session=True,  # an interrupt at the terminal comes to the runner alone
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._child.pid

    def first_line(self) -> bytes:
        """Return the first line of standard output, empty if the process ended before it."""
        output = self._child.stdout
        return output.readline() if output is not None else b""

    def end_input(self) -> None:
        """End the standard input of the process."""
        if self._child.stdin is not None:
            self._child.stdin.close()

    def memory(self) -> Memory:
        """Return what the process occupies."""
        fields = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        )
        now, peak = (int(fields[name].split()[0]) for name in ("VmRSS", "VmHWM"))
        return Memory(now=now, peak=peak)

    def processor_seconds(self) -> float:
        """Return the processor time that the process has used, all its threads, to 10 ms."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(") ")[2].split()  # the name before it may hold anything
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._child.poll() is not None

    def last_words(self) -> str:
        """Return the end of what the process wrote to standard error."""
        return self._log_path.read_text(encoding="utf-8", errors="replace")[-2000:].strip()

    def kill(self) -> None:
        """End the process as a power cut would; ``stop`` is still called."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> float:
        """End the process, gently first, and return the seconds it took."""
        begun = time.perf_counter()
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._log):
            if stream is not None:
                stream.close()
        return time.perf_counter() - begun


def until_answered(process: Process, port: int, path: str) -> None:
    """Return as soon as ``GET path`` over TLS has been answered with 200.

    Asks every half millisecond, so the moment is known that exactly. Raises ``TroubleError`` if the
    process ends, or has not answered in three minutes.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _answers(port, path):
        if process.has_ended():
            raise TroubleError(f"the server ended before it answered\n{process.last_words()}")
        if time.monotonic() > deadline:
            raise TroubleError(f"the server did not answer within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _answers(port: int, path: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # loopback, and nothing of worth is sent
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            context.wrap_socket(plain) as stream,
        ):
            stream.sendall(request.encode())
            return stream.recv(4096).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False
