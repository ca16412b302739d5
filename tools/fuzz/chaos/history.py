"""The history of a run: all requests with their answers, all faults, and the logs at the end.

A history is a JSON document, so another process can judge it again. Times are seconds since the
beginning of the run, on one monotonic clock.
"""

import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["Fault", "History", "Log", "Outcome", "Record", "Recorder", "read_history"]

FORMAT: Final = "keyhouse-chaos-1"

Value = str | int | bool | None


class Outcome(StrEnum):
    """The outcome of a request."""

    DONE = "done"
    REFUSED = "refused"
    """The answer says that the change has not happened and never will."""
    UNKNOWN = "unknown"
    """No answer, or an answer that leaves the outcome open."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request with its answer.

    ``key`` names the object of the request: its kind, a space, its name. ``place`` and ``head`` are
    the values of Keyhouse-State and Keyhouse-Log in the answer. Without an answer, ``ended`` is the
    time at which the client stopped waiting.
    """

    client: str
    replica: int
    key: str
    what: str
    outcome: Outcome
    began: float
    ended: float
    argument: Value = None
    result: Value = None
    status: int = 0  # HTTP status; 0: no answer, or gRPC
    place: str = ""
    head: str = ""


class Fault(msgspec.Struct, frozen=True):
    """A past fault with its times. ``machine`` is the machine of its ``Strike``."""

    kind: str
    machine: int
    began: float
    repaired: float
    others: tuple[str, ...] = ()  # kinds of further faults at the same time


class Log(msgspec.Struct, frozen=True):
    """The update log of a replica at the end of a run."""

    replica: int
    lines: int
    digest: str  # SHA-256 of all lines
    uploads: dict[str, int]  # lines by secret
    versions: tuple[int, ...]  # the raised security versions, in order
    manifests: tuple[str, ...]  # fingerprints of the manifests after the first, in order


class History(msgspec.Struct, kw_only=True):
    """The history of a run."""

    seed: int
    machines: int
    replicas: int  # processes on each machine
    seconds: float = 0.0
    load: float = 0.0  # mean of the load average of the machine
    limit: int = 0  # activations of each type
    manifest: str = ""  # fingerprint of the first manifest
    version: int = 0  # the first security version
    records: list[Record] = []
    faults: list[Fault] = []
    logs: list[Log] = []
    away: list[int] = []  # replicas that did not serve at the end
    exits: dict[str, int] = {}  # by exit code, of replicas that no fault ended
    format: str = FORMAT

    def write(self, path: Path) -> None:
        """Write the history to ``path``. Creates a missing folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(self) + b"\n")


def read_history(path: Path) -> History:
    """Return the history in ``path``. Raises ``OSError`` or ``msgspec.MsgspecError``."""
    history = msgspec.json.decode(path.read_bytes(), type=History)
    if history.format != FORMAT:
        raise msgspec.ValidationError(f"the format is {history.format!r}, not {FORMAT!r}")
    return history


class Recorder:
    """Adds the records of many threads to a history."""

    def __init__(self, history: History) -> None:
        self.history: Final = history
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the seconds since the beginning of the run."""
        return round(time.monotonic() - self._began, 6)

    def add(self, **fields: Any) -> Record:
        """Add the record of a request with the current time as its end."""
        record = Record(ended=self.now(), **fields)
        with self._lock:
            self.history.records.append(record)
        return record

    def add_fault(self, fault: Fault) -> None:
        """Add a repaired fault."""
        with self._lock:
            self.history.faults.append(fault)
