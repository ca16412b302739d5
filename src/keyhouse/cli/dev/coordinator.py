"""A coordinator as a process below this one: started, waited for, ended."""

import ctypes
import errno
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError
from keyhouse.base.openers import without_links
from keyhouse.base.printable import os_reason
from keyhouse.base.process.threads import start_without_signals
from keyhouse.cli.dev.folder import Folder, FolderUnusableError
from keyhouse.cli.parser import WrongUsageError
from keyhouse.wire.ports import CLIENT_API_PORT, WORKLOAD_API_PORT

_PR_SET_PDEATHSIG: Final = 1
_ENDING: Final = 15.0  # seconds for an end in order; longer than the coordinator's own grace


@contextmanager
def process_below(
    words: Sequence[str], hear: Callable[[bytes], None], folder: Path | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run ``words`` in ``folder`` while the context lasts; ``hear`` each line of its output.

    ``hear`` is called on another thread, at last with no bytes. Ctrl-C on the terminal is for this
    process alone, which then ends that one.
    """
    process = subprocess.Popen(  # noqa: S603 our own interpreter and words
        words,
        preexec_fn=_ends_with_this_process(),  # noqa: PLW1509 a system call, and nothing else
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    reader = threading.Thread(target=_listen, args=(process, hear))
    try:
        start_without_signals(reader)
        yield process
    finally:
        _end(process)
        reader.join()


def _ends_with_this_process() -> Callable[[], None]:
    """Return what makes a child get SIGTERM when this process ends, in whatever way."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return ask


def _listen(process: "subprocess.Popen[bytes]", hear: Callable[[bytes], None]) -> None:
    source = process.stdout
    assert source is not None  # noqa: S101 it was asked for
    with source:
        for line in source:
            hear(line)
    hear(b"")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_PATIENCE: Final = 60.0  # seconds until a start is given up
_ERROR: Final = "error: "
_HERE: Final = "127.0.0.1"
_APIS: Final = {"serving the Client API": "client", "serving the workload API": "workload"}


Entry = dict[str, Any]
"""One entry of the log; another line is its ``text``, with the ``service`` that said it."""
Heard = queue.Queue[Entry | None]
"""Entries, then None when the coordinator has ended."""


class Places(NamedTuple):
    """Where to listen: an address, and a port for each of the interfaces."""

    host: str
    client: int
    workload: int
    notes: tuple[str, ...] = ()  # on ports that are not the usual ones


def places_at(host: str, client: int | None, workload: int | None) -> Places:
    """Return where to listen at the address ``host``; None: the usual port, or any if it is taken.

    Raises ``WrongUsageError`` for an address that is not one of this machine.
    """
    notes: list[str] = []

    def port(name: str, wanted: int | None, usual: int) -> int:
        if wanted is not None or can_listen(host, usual):
            return usual if wanted is None else wanted
        notes.append(f"port {usual} is in use: the {name} has another")
        return 0

    ports = (
        port("Client API", client, CLIENT_API_PORT),
        port("workload API", workload, WORKLOAD_API_PORT),
    )
    return Places(host, *ports, tuple(notes))


def can_listen(host: str, port: int) -> bool:
    """Return whether nobody else listens at ``port``."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        unknown = (error.errno or 0) < 0  # those of look-ups are not errors of the system
        reason = "it is not an address" if unknown else os_reason(error)
        raise WrongUsageError(
            f"cannot listen at {host}: {reason}",
            hint="--listen names an IPv4 address of this machine",
        ) from None
    return True


class StartRefusedError(RefusedError):
    """The coordinator said why it does not start."""

    code = "start-refused"


class Serving(NamedTuple):
    """A coordinator that answers. Addresses are ``HOST:PORT``, for this machine."""

    process: subprocess.Popen[bytes]
    client: str
    workload: str
    heard: "Heard"

    def entries(self) -> Iterator[Entry]:
        """Yield what it logs from now on, until it ends by itself."""
        return iter(self.heard.get, None)

    def ended(self, said: Sequence[str]) -> BrokenError:
        """Wait until the coordinator has ended; return the error, with the lines it ``said``."""
        code = self.process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        why = "".join(f": {each.removeprefix(_ERROR)}" for each in said if each.startswith(_ERROR))
        return BrokenError(
            f"the coordinator has ended by itself ({how}){why}", hint="start it again: keyhouse dev"
        )


@contextmanager
def coordinator_at(folder: Folder, find: Callable[[], Places]) -> Iterator[tuple[Serving, Places]]:
    """Serve at the places that ``find`` returns, found again if a port was taken meanwhile.

    Raises what ``_below`` does.
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
def _below(folder: Folder, places: Places) -> Iterator[Serving]:
    """Serve from the state in ``folder`` on the simulated platform while the context lasts.

    A port of 0 is any that is free. What the coordinator logs is in the file for it, too.

    Raises:
        StartRefusedError, UnavailableError: it refuses to start, or does not serve in time.
    """
    words = ["-I", "-B", "-m", "keyhouse.cli", "serve", "--platform", "simulation"]
    words += ["--data-dir", str(folder.state), "--log-format", "json", "--log-level", "debug"]
    words += ["--client-addr", f"{places.host}:{places.client}"]
    words += ["--mesh-addr", f"{places.host}:{places.workload}"]
    words += ["--confirm-clock"]  # it protects nothing, so an old version may be tried out, too
    heard: Heard = queue.Queue()
    with ExitStack() as ends:
        log = ends.enter_context(_new_log(folder.log))

        def hear(line: bytes) -> None:
            log.write(line)
            heard.put(_entry(line) if line else None)

        process = ends.enter_context(process_below([sys.executable, *words], hear))
        yield _served(process, heard)


def _new_log(path: Path) -> BinaryIO:
    """Return the file ``path``, emptied. Raises ``FolderUnusableError``, also for a link."""
    try:
        return open(path, "wb", buffering=0, opener=without_links)
    except OSError as error:
        raise FolderUnusableError(
            f"cannot write {path}: {os_reason(error)}", hint="remove it, or name another --folder"
        ) from None


def _entry(line: bytes) -> Entry:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if isinstance(found, dict) and {"event", "level", "timestamp"} <= found.keys():
        return found
    return {"text": line.decode("utf-8", errors="replace").rstrip()}


def _served(process: "subprocess.Popen[bytes]", heard: Heard) -> Serving:
    addresses: dict[str, str] = {}
    lines: list[str] = []
    while len(addresses) < len(_APIS):
        try:
            entry = heard.get(timeout=_PATIENCE)
        except queue.Empty:
            raise UnavailableError("the coordinator does not serve in time") from None
        if entry is None:
            raise _not_started(lines)
        if "text" in entry:
            lines.append(entry["text"])
        elif entry.get("event") in _APIS:
            addresses[_APIS[entry["event"]]] = _from_here(entry["address"])
    return Serving(process, addresses["client"], addresses["workload"], heard)


def _from_here(address: str) -> str:
    """Return ``HOST:PORT`` as a client on this machine names it."""
    host, _, port = address.rpartition(":")
    return f"{_HERE if host in {'0.0.0.0', '*'} else host}:{port}"  # noqa: S104 no listening


def _not_started(lines: list[str]) -> StartRefusedError | BrokenError:
    """Return the error that the coordinator printed, with its hint."""
    error = next((each for each in lines if each.startswith(_ERROR)), "")
    hint = next((each for each in lines if each.startswith("hint: ")), "")
    if not error:
        return BrokenError("the coordinator ended before it served, and did not say why")
    return StartRefusedError(error.removeprefix(_ERROR), hint=hint.removeprefix("hint: "))
