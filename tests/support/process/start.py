"""Starts `keyhouse` processes: each forked from a warm interpreter, or with a new interpreter.

The suite starts hundreds of processes. A fork of an interpreter that has imported everything saves
most of the cost. From `keyhouse.cli.main` on, the process runs the same program, with its own
streams, environment, folder and process id. Two interpreters take turns, so a restarted
coordinator has another hash seed. They have stored primes for RSA-4096 keys, because a generation
takes long. ``KEYHOUSE_TESTS_COLD=1`` gives every process a new interpreter. With
``KEYHOUSE_TESTS_GRAMINE=DIR``, coordinators start under Gramine (``gramine_stand_in``). Shells of
the tests can also start warm processes: ``on_path`` gives them a ``keyhouse`` that requests its
process here.
"""

import atexit
import itertools
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO, Final, Protocol

from support.process.warm.forkserver import EXIT
from support.process.warm.request import may_be_warm, send_request

__all__ = ["GRAMINE", "KEYHOUSE", "Started", "on_path", "put_keyhouse", "start", "warm_python"]

KEYHOUSE = str(Path(sys.executable).with_name("keyhouse"))

_PROGRAM: Final = Path(__file__).with_name("warm") / "forkserver.py"
_STAND_IN: Final = Path(__file__).with_name("warm") / "stand_in.py"
_COLD: Final = bool(os.environ.get("KEYHOUSE_TESTS_COLD"))
GRAMINE: Final = os.environ.get("KEYHOUSE_TESTS_GRAMINE", "")
"""The directory of a runtime; empty: no coordinator starts under Gramine."""

DIVIDED: Final = os.environ.get("KEYHOUSE_TESTS_DIVIDED", "")
"""The divisor of the thresholds in warm processes, see ``divided``; empty: no division."""

_TURNS: Final = 2


class Started(Protocol):
    """A process, with a part of the interface of ``subprocess.Popen``."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """The collected exit code, negative for a signal; None: not collected."""
        ...

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code. Raises ``subprocess.TimeoutExpired``."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal if the process still runs."""
        ...

    def kill(self) -> None:
        """End the process at once."""
        ...


def start(
    arguments: Sequence[str],
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    output: IO[bytes],
    errors: IO[bytes],
    environment: Mapping[str, str],
    folder: Path | None = None,
    cold: bool = False,
) -> Started:
    """Start ``keyhouse`` with only these arguments and variables.

    ``cold``: with a new interpreter, for tests of the start of a process itself.
    """
    if GRAMINE and arguments[:1] == ["serve"] and not {"--check-config", "--help"} & {*arguments}:
        from support.process.gramine_stand_in import serve

        return serve(
            arguments,
            stdin=stdin,
            errors=errors,
            environment=environment,
            folder=folder or Path.cwd(),
        )
    if cold or _COLD or not may_be_warm(arguments, environment):
        return subprocess.Popen(
            [KEYHOUSE, *arguments],
            stdin=stdin,
            stdout=output,
            stderr=errors,
            env=dict(environment),
            cwd=folder,
        )
    kind = arguments[0] if arguments and arguments[0] in {"serve", "run"} else "command"
    with Path(os.devnull).open("rb") as nothing:
        given = nothing if isinstance(stdin, int) else stdin
        streams = (given.fileno(), output.fileno(), errors.fileno())
        control = next(_fork_servers[kind]).control()
        words = [KEYHOUSE, *arguments]
        ends = send_request(control, words, environment, str(folder or Path.cwd()), streams)
        return _Forked(ends)


@contextmanager
def on_path() -> Iterator[str]:
    """Yield a PATH for shells with a warm ``keyhouse``."""
    path = f"{Path(KEYHOUSE).parent}{os.pathsep}{os.environ['PATH']}"
    with TemporaryDirectory() as folder:
        put_keyhouse(Path(folder))
        yield f"{folder}{os.pathsep}{path}"


def put_keyhouse(folder: Path) -> None:
    """Put a ``keyhouse`` into ``folder`` that is warm while these tests run."""
    program = folder / "keyhouse"
    if _COLD:
        program.symlink_to(KEYHOUSE)
        return
    address = next(_fork_servers["command"]).address()
    words = [sys.executable, "-E", "-S", str(_STAND_IN), address]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(0o700)


def warm_python(folder: Path) -> str:
    """Make an environment in ``folder`` like this one, with a warm ``keyhouse``.

    Return the path of its interpreter.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    put_keyhouse(programs)
    (programs / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    return str(programs / "python")


class _Forked:
    """A process of a fork server. The server writes the exit code to a pipe."""

    def __init__(self, ends: int) -> None:
        self._ends = os.fdopen(ends, "rb", buffering=0)
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self.pid = self._number()

    def _number(self) -> int:
        raw = self._ends.read(EXIT.size)
        number: int = EXIT.unpack(raw)[0]
        return number

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("keyhouse", timeout or 0.0)
        return code

    def _ended(self, patience: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                poll = select.poll()
                poll.register(self._ends, select.POLLIN)
                if poll.poll(None if patience is None else patience * 1000):
                    self.returncode = self._number()
                    self._ends.close()
            return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        self._ends.close()


class _ForkServer:
    """A fork server. It starts at its first use and ends with this process."""

    def __init__(self, kind: str, this: int, of: int) -> None:
        self._kind = kind
        self._place = (this, of)
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._folder = ""

    def control(self) -> socket.socket:
        """Return the socket for requests; start the server at the first call."""
        with self._lock:
            return self._control or self._start()

    def address(self) -> str:
        """Return the path of the socket for requests of other processes."""
        self.control()
        return f"{self._folder}/socket"

    def _start(self) -> socket.socket:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = mkdtemp()
        isolated = ["-I", "-B"] if self._kind != "command" else []
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"{self._folder}/socket")
            listener.listen()
            descriptors = [theirs.fileno(), listener.fileno()]
            numbers = map(str, [*self._place, *descriptors])
            process = subprocess.Popen(
                [sys.executable, *isolated, str(_PROGRAM), self._kind, *numbers, DIVIDED],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                pass_fds=descriptors,
            )
        atexit.register(_end, self._control, process, self._folder)
        return self._control


def _end(control: socket.socket, process: subprocess.Popen[bytes], folder: str) -> None:
    control.close()
    process.wait()
    shutil.rmtree(folder)


def _in_turn(kind: str) -> Iterator[_ForkServer]:
    turns = _TURNS if kind == "serve" else 1
    return itertools.cycle([_ForkServer(kind, turn, turns) for turn in range(turns)])


_fork_servers: Final = {kind: _in_turn(kind) for kind in ("serve", "run", "command")}
