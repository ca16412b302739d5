"""Processes under measurement, each bound to a processor. Their starter ends them."""

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
    """The reason of a failed measurement, as a text for the terminal."""


class Processors(msgspec.Struct, frozen=True):
    """The processor of the servers, and the processor of the load and of this process.

    Both numbers are equal if only one processor is available. Server and load then compete.
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
        """Whether server and load share a processor."""
        return self.server == self.load


@contextlib.contextmanager
def pinned(processor: int | None) -> Iterator[None]:
    """Bind this thread, and all children started in the block, to one processor.

    None binds nothing. A child inherits the binding before its first instruction, so all threads of
    the child have the binding.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if processor is None else {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of a process in KiB: the present value and the peak."""

    now: int
    peak: int


class Process:
    """A child process that writes its output to the file ``log``. The context ends the process.

    With ``speaks``, standard output goes to a pipe, and ``first_line`` reads from the pipe.
    ``processor`` is the only permitted processor; None permits every processor.
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
                start_new_session=True,  # Ctrl-C at the terminal interrupts the parent only
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
        """The process ID."""
        return self._child.pid

    def first_line(self) -> bytes:
        """Return the next line of standard output, or nothing after the end of the output."""
        output = self._child.stdout
        return output.readline() if output is not None else b""

    def end_input(self) -> None:
        """End the standard input of the process."""
        if self._child.stdin is not None:
            self._child.stdin.close()

    def memory(self) -> Memory:
        """Return the resident memory of the process."""
        fields = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        )
        now, peak = (int(fields[name].split()[0]) for name in ("VmRSS", "VmHWM"))
        return Memory(now=now, peak=peak)

    def processor_seconds(self) -> float:
        """Return the processor time of all threads in seconds, in ticks of 10 ms."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(") ")[2].split()  # the name can contain brackets and blanks
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._child.poll() is not None

    def last_words(self) -> str:
        """Return the last 2,000 characters of the log."""
        return self._log_path.read_text(encoding="utf-8", errors="replace")[-2000:].strip()

    def kill(self) -> None:
        """Kill the process, as a power cut does. A call of ``stop`` is still necessary."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> float:
        """End the process with SIGTERM, after 15 s with SIGKILL; return the elapsed seconds."""
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
    """Wait until the server answers ``GET path`` over TLS with 200.

    The wait requests ``path`` each half millisecond. Raises ``TroubleError`` if the process ends,
    or does not answer within three minutes.
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
    context.verify_mode = ssl.CERT_NONE  # loopback, and the requests have no real secrets
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
