"""The audit trail: who was activated, newest last. Derived from the events, bounded in length.

It is separate from the update log, because activations are many and the log is kept forever. Each
line is a JSON object. A UUID that appears on another platform is marked: the workload may have
moved on purpose, or may have been copied, and only an operator can tell which.
"""

from typing import Final

import msgspec

from keyhouse.coordinator.core.events import Activated, BaseAudit, Event, MarblesActivated
from keyhouse.coordinator.core.timestamps import timestamp
from keyhouse.wire.client_api import Activation

KEPT: Final = 100_000
"""Activations that are kept at least; older ones are removed, ``SLACK`` at a time."""

SLACK: Final = 10_000

BYTES: Final = 64 * 1024 * 1024
"""Size of all kept lines: workloads with many names make long ones, and the trail is in memory."""


class Moved(msgspec.Struct, frozen=True):
    """A workload that runs on another platform than before."""

    marble_type: str
    uuid: str
    before: str  # PPID in hex
    now: str


class AuditView:
    """The trail as it stood at one revision. Later activations do not show."""

    __slots__ = ("_lines", "_start", "_stop", "first")

    def __init__(self, lines: list[bytes], first: int) -> None:
        self._lines = lines
        self._stop = len(lines)
        self._start = max(0, self._stop - KEPT)
        self.first: Final = first + self._start  # number of the oldest activation that is kept

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def end(self) -> int:
        """The number that the next activation will have; the first one ever has 0."""
        return self.first + len(self)

    def lines(self, begin: int, most: int) -> list[bytes]:
        """Return up to ``most`` lines from number ``begin`` on, oldest first."""
        at = max(begin - self.first, 0) + self._start
        return self._lines[min(at, self._stop) : min(at + most, self._stop)]


class AuditTrail:
    """The newest lines, oldest first. Owned by the engine, which alone appends."""

    def __init__(self, before: AuditView | None = None) -> None:
        self._lines: list[bytes] = [] if before is None else before.lines(before.first, KEPT)
        self._first = 0 if before is None else before.first
        # Where each workload ran last, least recent first. A copy reads its lines when it needs to.
        self._platforms: dict[tuple[str, str], str] = {}
        self._unlearnt = self._lines.copy()
        self._size = sum(map(len, self._lines))  # bytes
        self._view: AuditView | None = None  # of the trail as it is: most changes add nothing

    def extend(self, event: Event) -> list[Moved]:
        """Append what ``event`` says; return each workload that moved."""
        if isinstance(event, BaseAudit):
            self._restore(event)
        if not isinstance(event, MarblesActivated):
            return []
        moved = (self._append(activated) for activated in event.activations)
        return [each for each in moved if each is not None]

    def view(self) -> AuditView:
        """Return the trail as it stands now. Costs nothing: lines are only ever appended."""
        if self._view is None:
            self._view = AuditView(self._lines, self._first)
        return self._view

    def _append(self, activated: Activated) -> Moved | None:
        platform = activated.platform.hex()
        before = self._came_from(activated.marble_type, activated.uuid, platform)
        line = _encode(_entry(activated, before))
        self._lines.append(line)
        self._view = None
        self._size += len(line)
        if len(self._lines) >= KEPT + SLACK or self._size > BYTES:
            self._forget()
        if not before:
            return None
        return Moved(activated.marble_type, activated.uuid, before, platform)

    def _forget(self) -> None:
        """Drop the oldest lines, and some more, so that this is rare."""
        drop = max(len(self._lines) - KEPT, 0)
        left = self._size - sum(map(len, self._lines[:drop]))
        while left > BYTES - BYTES // 16:
            left -= len(self._lines[drop])
            drop += 1
        self._first += drop
        self._lines = self._lines[drop:]  # a new list: views keep the old one
        self._size = left

    def _restore(self, event: BaseAudit) -> None:
        if not self._lines:
            self._first = event.first
        self._lines.extend(event.lines)
        self._view = None
        self._size += sum(map(len, event.lines))
        for line in event.lines:
            self._learn(line)

    def _learn(self, line: bytes) -> None:
        if b'"platform":' in line:
            entry = _ENTRY.decode(line)
            self._came_from(entry.marble_type, entry.uuid, entry.platform)

    def _came_from(self, marble_type: str, uuid: str, platform: str) -> str:
        """Remember where a workload runs; return where it ran before if that differs, else ""."""
        if not platform:
            return ""
        unlearnt, self._unlearnt = self._unlearnt, []
        for line in unlearnt:
            self._learn(line)
        before = self._platforms.pop((marble_type, uuid), platform)
        if len(self._platforms) >= KEPT:
            del self._platforms[next(iter(self._platforms))]
        self._platforms[marble_type, uuid] = platform
        return "" if before == platform else before


_encode: Final = msgspec.json.Encoder().encode
_ENTRY: Final = msgspec.json.Decoder(Activation)


def _entry(activated: Activated, moved_from: str) -> Activation:
    return Activation(
        time=timestamp(activated.time),
        marble_type=activated.marble_type,
        uuid=activated.uuid,
        names=activated.names,
        quoted=activated.quoted,
        platform=activated.platform.hex(),
        unique_id=activated.mrenclave.hex(),
        signer_id=activated.mrsigner.hex(),
        tcb_status=activated.tcb_status,
        mrtd=activated.mrtd.hex(),
        rtmrs=tuple(register.hex() for register in activated.rtmrs),
        measurement=activated.measurement.hex(),
        counted=activated.counted,
        moved_from=moved_from,
    )
