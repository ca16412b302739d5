"""A coordinator as a process below this one: started, waited for, ended."""

import ctypes
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError

__all__ = ["Serving", "coordinator_below"]

_PATIENCE: Final = 60.0  # seconds until a start is given up
_PR_SET_PDEATHSIG: Final = 1
_ENDING: Final = 15.0  # seconds for an end in order; longer than the coordinator's own grace
_ERROR: Final = "error: "
_APIS: Final = {"serving the Client API": "client", "serving the workload API": "workload"}


class StartRefusedError(RefusedError):
    """The coordinator said why it does not start."""

    code = "start-refused"


class Serving(NamedTuple):
    """A coordinator that answers. Addresses are ``127.0.0.1:PORT``."""

    process: subprocess.Popen[bytes]
    client: str
    workload: str
    heard: "queue.Queue[dict[str, Any] | None]"

    def ended(self) -> BrokenError:
        """Wait until the coordinator ends by itself; return the error to report."""
        code = self.process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        said = [entry["text"] for entry in iter(self.heard.get, None) if "text" in entry]
        why = "".join(f": {each.removeprefix(_ERROR)}" for each in said if each.startswith(_ERROR))
        return BrokenError(
            f"the coordinator has ended by itself ({how}){why}", hint="start it again: keyhouse dev"
        )


@contextmanager
def coordinator_below(folder: Path, client_port: int, workload_port: int) -> Iterator[Serving]:
    """Serve from ``folder / "keyhouse-data"`` on the simulated platform while the context lasts.

    A port of 0 is any that is free. What the coordinator logs is in ``coordinator.log``.

    Raises:
        StartRefused, Unavailable: it refuses to start, or does not serve in time.
    """
    from keyhouse.launcher import start_without_signals

    words = ["-I", "-B", "-m", "keyhouse.cli", "serve", "--platform", "simulation"]
    words += ["--data-dir", str(folder / "keyhouse-data"), "--log-format", "json"]
    words += ["--client-addr", f"127.0.0.1:{client_port}"]
    words += ["--mesh-addr", f"127.0.0.1:{workload_port}"]
    words += ["--confirm-clock"]  # nothing of it stays, so an old version may be tried out, too
    # In a session of its own: Ctrl-C on the terminal is for this process, which ends that one.
    process = subprocess.Popen(  # noqa: S603 our own interpreter and words
        [sys.executable, *words],
        preexec_fn=_ends_with_this_process(),  # noqa: PLW1509 there is no thread yet
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
    reader = threading.Thread(target=_listen, args=(process, folder / "coordinator.log", heard))
    try:
        start_without_signals(reader)
        yield _served(process, heard)
    finally:
        _end(process)
        reader.join()


def _ends_with_this_process() -> Callable[[], None]:
    """Return what makes a child get SIGTERM when this process ends, in whatever way."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return ask


def _listen(
    process: "subprocess.Popen[bytes]", path: Path, heard: "queue.Queue[dict[str, Any] | None]"
) -> None:
    """Copy the log of ``process`` to the file ``path``; put relevant entries into ``heard``."""
    source = process.stderr
    assert source is not None  # noqa: S101 it was asked for
    with source, path.open("wb", buffering=0) as log:
        for line in source:
            log.write(line)
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"text": line.decode("utf-8", errors="replace").rstrip()}
            if "text" in entry or entry.get("event") in _APIS:
                heard.put(entry)
    heard.put(None)


def _served(
    process: "subprocess.Popen[bytes]", heard: "queue.Queue[dict[str, Any] | None]"
) -> Serving:
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
        else:
            addresses[_APIS[entry["event"]]] = entry["address"]
    return Serving(process, addresses["client"], addresses["workload"], heard)


def _not_started(lines: list[str]) -> StartRefusedError | BrokenError:
    """Return the error that the coordinator printed, with its hint."""
    error = next((each for each in lines if each.startswith(_ERROR)), "")
    hint = next((each for each in lines if each.startswith("hint: ")), "")
    if not error:
        return BrokenError("the coordinator ended before it served, and did not say why")
    return StartRefusedError(error.removeprefix(_ERROR), hint=hint.removeprefix("hint: "))


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
