"""The audit trail: the activated workloads, newest last. Derived from the events, bounded in size.

The update log is a separate log: activations are many, and the update log is kept forever. Each
line is a JSON object. A line is marked if its workload (UUID) ran on a different platform before.
The workload may have moved on purpose, or an attacker may have copied it; only an operator can
decide.
"""

from typing import Final

import msgspec

from keyhouse.coordinator.core.events import Activated, BaseAudit, MarblesActivated
from keyhouse.coordinator.core.timestamps import timestamp
from keyhouse.wire.client_api import Activation

KEPT: Final = 100_000
"""The newest activations that always stay, unless ``BYTES`` is exceeded."""

SLACK: Final = 10_000
"""The trail drops old lines in steps of this number, so that copies of the list are rare."""

BYTES: Final = 64 * 1024 * 1024
"""Maximum size of all lines.

The trail is in memory, and a workload with many names has long lines.
"""


class Moved(msgspec.Struct, frozen=True):
    """A workload whose platform differs from the platform of its former activation."""

    marble_type: str
    uuid: str
    before: str  # PPID in hex
    now: str


class AuditView:
    """The audit trail at one moment. Later activations are not visible."""

    __slots__ = ("_lines", "_start", "_stop", "first")

    def __init__(self, lines: list[bytes], first: int) -> None:
        self._lines = lines
        self._stop = len(lines)
        self._start = max(0, self._stop - KEPT)
        self.first: Final = first + self._start  # number of the oldest line

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def end(self) -> int:
        """The number of the next activation. The first activation of the deployment has 0."""
        return self.first + len(self)

    def lines(self, begin: int, most: int) -> list[bytes]:
        """Return at most ``most`` lines, oldest first, beginning with number ``begin``."""
        at = max(begin - self.first, 0) + self._start
        return self._lines[min(at, self._stop) : min(at + most, self._stop)]


class AuditTrail:
    """The newest activations of the audit trail, oldest first. Only the engine appends."""

    def __init__(self, before: AuditView | None = None) -> None:
        self._lines: list[bytes] = [] if before is None else before.lines(before.first, KEPT)
        self._first = 0 if before is None else before.first
        # The last platform of each workload, least recently activated first. A copy of a trail
        # parses its lines only when it first needs them.
        self._platforms: dict[tuple[str, str], str] = {}
        self._unindexed = self._lines.copy()
        self._size = sum(map(len, self._lines))  # bytes

    def extend(self, event: MarblesActivated | BaseAudit) -> list[Moved]:
        """Append the lines of ``event``; return each workload whose platform has changed."""
        if isinstance(event, BaseAudit):
            self._restore(event)
            return []
        moved = (self._append(activated) for activated in event.activations)
        return [each for each in moved if each is not None]

    def view(self) -> AuditView:
        """Return a view of the present lines; later activations do not appear in this view.

        The cost is constant, because lines are only appended.
        """
        return AuditView(self._lines, self._first)

    def _append(self, activated: Activated) -> Moved | None:
        platform = activated.platform.hex()
        before = self._record_platform(activated.marble_type, activated.uuid, platform)
        line = _encode(_entry(activated, before))
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) >= KEPT + SLACK or self._size > BYTES:
            self._drop_oldest()
        if not before:
            return None
        return Moved(activated.marble_type, activated.uuid, before, platform)

    def _drop_oldest(self) -> None:
        """Drop lines beyond ``KEPT``, then lines until 1/16 of ``BYTES`` is free."""
        drop = max(len(self._lines) - KEPT, 0)
        left = self._size - sum(map(len, self._lines[:drop]))
        while left > BYTES - BYTES // 16:
            left -= len(self._lines[drop])
            drop += 1
        self._first += drop
        self._lines = self._lines[drop:]  # a new list, because views read the old one
        self._size = left

    def _restore(self, event: BaseAudit) -> None:
        if not self._lines:
            self._first = event.first
        self._lines.extend(event.lines)
        self._size += sum(map(len, event.lines))
        for line in event.lines:
            self._index_platform(line)

    def _index_platform(self, line: bytes) -> None:
        if b'"platform":' in line:
            entry = _ENTRY.decode(line)
            self._record_platform(entry.marble_type, entry.uuid, entry.platform)

    def _record_platform(self, marble_type: str, uuid: str, platform: str) -> str:
        """Record the ``platform`` of the workload with ``marble_type`` and ``uuid``.

        Return the former platform if it was different, else "".
        """
        if not platform:
            return ""
        unindexed, self._unindexed = self._unindexed, []
        for line in unindexed:
            self._index_platform(line)
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
        **activated.in_hex(),
        counted=activated.counted,
        moved_from=moved_from,
    )
