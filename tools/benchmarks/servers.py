"""The servers that take turns in a benchmark."""

import contextlib
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from benchmarks.coordinator import Coordinator
from benchmarks.figures import SHORT
from benchmarks.manifests import (
    User,
    envelope,
    joining_manifest,
    large_manifest,
    update_manifests,
    upload_chunks,
)
from benchmarks.processes import Process, TroubleError
from benchmarks.recovery import recovery_seconds

__all__ = ["Servers"]


class Servers:
    """A bare server, and coordinators by name. The context ends all servers.

    ``first_starts`` and ``starts`` are seconds from the start of a process to its first answer:
    ``first_starts`` on empty data directories, ``starts`` on directories with a state.
    ``empty_kib`` is the resident memory of a coordinator without a manifest.
    """

    def __init__(self, keyhouse: Path, folder: Path, *, processor: int) -> None:
        self._keyhouse = keyhouse
        self._folder = folder
        self._processor = processor
        self._open = contextlib.ExitStack()
        self.user = User.create(folder)
        self.coordinators: dict[str, Coordinator] = {}
        self.first_starts: list[float] = []
        self.starts: dict[str, list[float]] = {}
        self.empty_kib = 0

    def __enter__(self) -> Self:
        try:
            self.bare = self._open.enter_context(
                Process(
                    [sys.executable, "-m", "benchmarks.bare"],
                    processor=self._processor,
                    log=self._folder / "bare.log",
                    speaks=True,
                )
            )
            self.bare_port = _told_port(self.bare)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def hold_secrets(self, name: str, size: int) -> Coordinator:
        """Start the coordinator ``name``, and upload ``size`` secrets."""
        coordinator = self._fresh(name)
        self.empty_kib = self.empty_kib or coordinator.settled_memory()
        coordinator.hold_secrets(size, self.user)
        self.coordinators[name] = coordinator
        return coordinator

    def hold_little(self) -> None:
        """Start a coordinator with a small manifest and a short update log."""
        self.coordinators[SHORT] = self._fresh(SHORT)
        self.coordinators[SHORT].post("/api/v2/manifest", envelope(large_manifest(1, 1, 1, 0)))

    def hold_marbles(self, name: str, marbles: int) -> Coordinator:
        """Start the coordinator ``name`` with a manifest of ``marbles`` marble types."""
        coordinator = self._fresh(name)
        coordinator.post("/api/v2/manifest", envelope(joining_manifest(marbles)))
        self.coordinators[name] = coordinator
        return coordinator

    def restart(self, name: str, times: int) -> None:
        """Restart the coordinator ``name`` on its state, and record the times."""
        self.starts[name] = []
        for _ in range(times):
            self.coordinators[name].restart()
            self.starts[name].append(self.coordinators[name].first_answer)

    def bulk_times(self, name: str, size: int, times: int) -> list[float]:
        """Measure uploads of 1,000 secrets in one request, in seconds."""
        body = upload_chunks(size)[0]
        return [
            self.coordinators[name].post("/api/v2/secrets", body, self.user) for _ in range(times)
        ]

    def manifest_times(self, body: bytes, times: int) -> tuple[list[float], list[float]]:
        """Measure setting a manifest, and the next start with this manifest, in seconds.

        Each measurement uses a new coordinator.
        """
        taken, starts = [], []
        for number in range(times):
            coordinator = self._fresh(f"manifest-{number}")
            taken.append(coordinator.post("/api/v2/manifest", body))
            coordinator.restart()
            starts.append(coordinator.first_answer)
            coordinator.stop()
        return taken, starts

    def update_times(self, times: int) -> list[float]:
        """Measure the last acknowledgement of a large full update, in seconds.

        The last acknowledgement applies the update. The upload of the update is the first
        acknowledgement. Each measurement uses a new coordinator.
        """
        folder = self._folder / "second"
        folder.mkdir()
        second, taken = User.create(folder), []
        small, large = update_manifests(self.user, second)
        for number in range(times):
            coordinator = self._fresh(f"update-{number}")
            coordinator.post("/api/v2/manifest", envelope(small))
            coordinator.post("/api/v2/update", envelope(large), self.user)
            taken.append(coordinator.post("/api/v2/update-manifest", envelope(large), second))
            coordinator.stop()
        return taken

    def recovery_times(self, records: int, times: int) -> list[float]:
        """Measure recoveries with ``records`` records since the base, in seconds.

        Each measurement uses a new coordinator.
        """
        taken = []
        for number in range(times):
            coordinator = self._fresh(f"recovery-{number}")
            taken.append(recovery_seconds(coordinator, records, self.user))
            coordinator.stop()
        return taken

    def processor_seconds(self) -> float:
        """Return the total processor time of the servers under load, in seconds."""
        processes = [self.bare, *(one.process for one in self.coordinators.values())]
        return sum(process.processor_seconds() for process in processes)

    def memory(self) -> dict[str, int]:
        """Return the resident memory in KiB by coordinator, each after a short pause."""
        return {name: one.settled_memory() for name, one in self.coordinators.items()}

    def _fresh(self, name: str) -> Coordinator:
        coordinator = Coordinator(
            self._keyhouse, self._folder / f"coordinator-{name}", processor=self._processor
        )
        self._open.callback(coordinator.stop)
        self.first_starts.append(coordinator.first_answer)
        return coordinator


def _told_port(bare: Process) -> int:
    try:
        return msgspec.json.decode(bare.first_line(), type=dict[str, int])["port"]
    except (msgspec.DecodeError, KeyError):
        raise TroubleError(f"the bare server did not start\n{bare.last_words()}") from None
