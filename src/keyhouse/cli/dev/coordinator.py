"""Run a coordinator as a child process: start it, wait until it serves, end it."""

import ctypes
import errno
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from keyhouse.base.durable_files import without_links
from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError
from keyhouse.base.printable import os_reason
from keyhouse.base.process.threads import start_without_signals
from keyhouse.cli.dev.folder import Folder, FolderUnusableError
from keyhouse.cli.parser import WrongUsageError
from keyhouse.wire.ports import CLIENT_API_PORT, WORKLOAD_API_PORT

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
# A time for an orderly end, in seconds; longer than the coordinator's own grace period.
_ENDING: Final = 15.0


@contextmanager
def process_below(
    words: Sequence[str],
    handle_line: Callable[[bytes], None],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command ``words`` during the block; pass each line of output to ``handle_line``.

    ``folder`` is the working directory of the command, and ``environment`` has its variables. None
    means the directory or the variables of this process. ``handle_line`` runs on a thread of its
    own, and receives ``b""`` at the end of the output. The child has its own session, so Ctrl-C
    reaches only this process, and this process ends the child.
    """
    process = subprocess.Popen(  # noqa: S603 our own interpreter and words
        words,
        preexec_fn=_ends_with_this_process(),  # noqa: PLW1509 a system call only
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    reader = threading.Thread(target=_listen, args=(process, handle_line))
    try:
        start_without_signals(reader)
        yield process
    finally:
        _end(process)
        reader.join()


def _ends_with_this_process() -> Callable[[], None]:
    """Return a function for a child process to call before it executes its program.

    The function makes the kernel send SIGTERM to the child when this process ends.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return end_with_parent


def _listen(process: "subprocess.Popen[bytes]", handle_line: Callable[[bytes], None]) -> None:
    source = process.stdout
    assert source is not None  # noqa: S101 ``Popen`` has a pipe
    with source:
        for line in source:
            handle_line(line)
    handle_line(b"")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# Seconds between lines of the log during a start, chosen: a slow start logs every few seconds.
_PATIENCE: Final = 60.0
_ERROR: Final = "error: "
_HERE: Final = "127.0.0.1"
_APIS: Final = {"serving the Client API": "client", "serving the workload API": "workload"}


Entry = dict[str, Any]
"""An entry of the log. Other output is the ``text`` of an entry, with its ``service`` if known.
"""
LogQueue = queue.Queue[Entry | None]
"""Entries, then None when the coordinator has ended."""


class Places(NamedTuple):
    """The address ``host`` and the ports of both APIs for a development coordinator.

    The port 0 means any free port.
    """

    host: str
    client: int
    workload: int
    notes: tuple[str, ...] = ()  # about ports that differ from the usual ports


def places_at(host: str, client: int | None, workload: int | None) -> Places:
    """Return the address ``host`` with the ports of the Client API and of the workload API.

    ``client`` and ``workload`` are the ports from the options. None means the usual port, or 0 (any
    free port) if the usual port is in use. Raises ``WrongUsageError`` if this machine does not have
    the address.
    """
    notes: list[str] = []

    def port(name: str, port_number: int | None, usual: int) -> int:
        if port_number is not None or can_listen(host, usual):
            return usual if port_number is None else port_number
        notes.append(f"port {usual} is in use: the {name} has another port")
        return 0

    ports = (
        port("Client API", client, CLIENT_API_PORT),
        port("workload API", workload, WORKLOAD_API_PORT),
    )
    return Places(host, *ports, tuple(notes))


def can_listen(host: str, port: int) -> bool:
    """Return whether no program listens on ``port`` at the address ``host``.

    Raises ``WrongUsageError`` for an unusable address.
    """
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        unknown = (error.errno or 0) < 0  # an error of a look-up, not of the system
        reason = "not an address" if unknown else os_reason(error)
        raise WrongUsageError(
            f"cannot listen at {host}: {reason}",
            hint="pass an IPv4 address of this machine with --listen",
        ) from None
    return True


class StartRefusedError(RefusedError):
    """The coordinator printed an error and did not start."""

    code = "start-refused"


class RunningCoordinator(NamedTuple):
    """A coordinator that serves both APIs.

    ``client`` and ``workload``: the addresses ``HOST:PORT`` of the Client API and of the workload
    API, for clients on this machine. ``log_queue`` receives the entries of the coordinator's log.
    """

    process: subprocess.Popen[bytes]
    client: str
    workload: str
    log_queue: "LogQueue"

    def entries(self) -> Iterator[Entry]:
        """Yield new entries of the coordinator's log until the coordinator ends by itself."""
        return iter(self.log_queue.get, None)

    def end_error(self, output: Sequence[str]) -> BrokenError:
        """Wait until the process has ended; return an error with the exit code for the user.

        ``output`` has the lines of the process outside of its log. The error repeats each line with
        an error.
        """
        code = self.process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        why = "".join(
            f": {each.removeprefix(_ERROR)}" for each in output if each.startswith(_ERROR)
        )
        return BrokenError(
            f"the coordinator ended by itself ({how}){why}",
            hint="start it again: keyhouse dev",
        )


@contextmanager
def coordinator_at(
    folder: Folder, find: Callable[[], Places]
) -> Iterator[tuple[RunningCoordinator, Places]]:
    """Run a coordinator with the files of ``folder`` during the block.

    ``find`` returns an address and free ports. Yield the coordinator, and its address and ports. A
    different program may take a port before the coordinator does. So, after a failed start, the
    function calls ``find`` again, and starts the coordinator with the new ports.

    Raises ``StartRefusedError`` and ``UnavailableError`` if the coordinator does not serve.
    """
    places = find()
    with ExitStack() as ends:
        try:
            serving = ends.enter_context(_below(folder, places))
        except StartRefusedError:
            tried, places = places, find()
            if places == tried:
                raise
            serving = ends.enter_context(_below(folder, places))
        yield serving, places


@contextmanager
def _below(folder: Folder, places: Places) -> Iterator[RunningCoordinator]:
    """Run a coordinator with the state in ``folder`` on the simulated platform, during the block.

    ``places``: address and ports. The folder's file ``coordinator.log`` contains each entry of the
    coordinator's log.

    Raises:
        StartRefusedError: the coordinator refuses to start.
        UnavailableError: the coordinator logs nothing for 60 seconds before it serves.
    """
    words = ["-I", "-B", "-m", "keyhouse.cli", "serve", "--platform", "simulation"]
    words += ["--data-dir", str(folder.state), "--log-format", "json", "--log-level", "debug"]
    words += ["--client-addr", f"{places.host}:{places.client}"]
    words += ["--mesh-addr", f"{places.host}:{places.workload}"]
    words += ["--confirm-clock"]  # an old version may run, too: the simulation protects nothing
    with served_by([sys.executable, *words], folder.log) as serving:
        yield serving


@contextmanager
def served_by(
    words: Sequence[str],
    log_file: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    hint: str = "see coordinator.log in the folder, then start again",
) -> Iterator[RunningCoordinator]:
    """Run the command ``words`` of a coordinator during the block; yield when both APIs answer.

    The coordinator must log in JSON. ``log_file`` receives each line of its output. ``folder`` is
    its working directory, and ``environment`` has its variables; None means those of this process.

    Raises ``StartRefusedError``, ``BrokenError`` or ``UnavailableError`` if the coordinator does
    not serve. ``hint`` is the hint of ``UnavailableError``.
    """
    log_queue: LogQueue = queue.Queue()
    with ExitStack() as ends:
        log = ends.enter_context(_new_log(log_file))

        def handle_line(line: bytes) -> None:
            log.write(line)
            log_queue.put(_entry(line) if line else None)

        process = ends.enter_context(process_below(words, handle_line, folder, environment))
        yield _wait_until_served(process, log_queue, hint)


def _new_log(path: Path) -> BinaryIO:
    """Empty or create the file ``path`` for the log, and open it for writing.

    Raises ``FolderUnusableError``, also for a symbolic link.
    """
    try:
        return open(path, "wb", buffering=0, opener=without_links)
    except OSError as error:
        raise FolderUnusableError(
            f"cannot write {path}: {os_reason(error)}",
            hint="remove the file, or name another --folder",
        ) from None


def _entry(line: bytes) -> Entry:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if isinstance(entry, dict) and {"event", "level", "timestamp"} <= entry.keys():
        return entry
    return {"text": line.decode("utf-8", errors="replace").rstrip()}


def _wait_until_served(
    process: "subprocess.Popen[bytes]", log_queue: LogQueue, hint: str
) -> RunningCoordinator:
    addresses: dict[str, str] = {}
    lines: list[str] = []
    while len(addresses) < len(_APIS):
        try:
            entry = log_queue.get(timeout=_PATIENCE)
        except queue.Empty:
            raise UnavailableError(
                f"the coordinator does not serve, and has logged nothing for {_PATIENCE:.0f} s",
                hint=hint,
            ) from None
        if entry is None:
            raise _not_started(lines)
        if "text" in entry:
            lines.append(entry["text"])
        elif entry.get("event") in _APIS:
            addresses[_APIS[entry["event"]]] = _from_here(entry["address"])
    return RunningCoordinator(process, addresses["client"], addresses["workload"], log_queue)


def _from_here(address: str) -> str:
    """Return the listener's ``address``, HOST:PORT, for a client on this machine.

    The client needs 127.0.0.1 in place of an address for all interfaces.
    """
    host, _, port = address.rpartition(":")
    return f"{_HERE if host in {'0.0.0.0', '*'} else host}:{port}"  # noqa: S104 not a listener


def _not_started(lines: list[str]) -> StartRefusedError | BrokenError:
    """Return the error, with its hint, that the ended coordinator printed in ``lines``.

    Without such a line, the result is a ``BrokenError``.
    """
    error = next((each for each in lines if each.startswith(_ERROR)), "")
    hint = next((each for each in lines if each.startswith("hint: ")), "")
    if not error:
        return BrokenError("the coordinator ended before it served, without an error message")
    return StartRefusedError(error.removeprefix(_ERROR), hint=hint.removeprefix("hint: "))
