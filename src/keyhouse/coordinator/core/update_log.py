"""The update log and the audit trail: the events as text for people.

Both are derived from the events, and never stored separately. Source:
``docs/reference/manifest.md``, "Update log": one JSON object on a line, ``time`` first, ``update``
second.

The audit trail has the activated workloads, newest last, bounded in size. It is a separate log:
activations are many, and the update log is kept forever. Each line is a JSON object. The trail
marks a UUID on a new platform. The workload may have moved on purpose, or an attacker may have
copied it; only an operator can decide.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.events import Activated, BaseAudit, MarblesActivated
from keyhouse.manifest import fingerprint
from keyhouse.wire.client_api import Activation
from keyhouse.wire.secret_types import SecretType

AUDIT_KEPT: Final = 100_000
"""The newest activations that always stay, unless ``AUDIT_BYTES`` is exceeded."""

AUDIT_SLACK: Final = 10_000
"""The trail drops old lines in steps of this number, so that copies of the list are rare."""

AUDIT_BYTES: Final = 64 * 1024 * 1024
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
        self._start = max(0, self._stop - AUDIT_KEPT)
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
        self._lines: list[bytes] = [] if before is None else before.lines(before.first, AUDIT_KEPT)
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
        """Return the audit trail of this moment. Later activations do not change the result.

        The cost is constant: the result refers to the lines, and lines are only appended.
        """
        return AuditView(self._lines, self._first)

    def _append(self, activated: Activated) -> Moved | None:
        platform = activated.platform.hex()
        before = self._record_platform(activated.marble_type, activated.uuid, platform)
        line = _encode(_entry(activated, before))
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) >= AUDIT_KEPT + AUDIT_SLACK or self._size > AUDIT_BYTES:
            self._drop_oldest()
        if not before:
            return None
        return Moved(activated.marble_type, activated.uuid, before, platform)

    def _drop_oldest(self) -> None:
        """Drop lines beyond ``AUDIT_KEPT``, then lines until 1/16 of ``AUDIT_BYTES`` is free."""
        drop = max(len(self._lines) - AUDIT_KEPT, 0)
        left = self._size - sum(map(len, self._lines[:drop]))
        while left > AUDIT_BYTES - AUDIT_BYTES // 16:
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
        if len(self._platforms) >= AUDIT_KEPT:
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


_SECOND: Final = 1_000_000  # microseconds
_ENCODER: Final = msgspec.json.Encoder()


class _SecretSet(msgspec.Struct, frozen=True):
    """The line of an uploaded secret.

    Lines of other kinds are rare and encoded from dictionaries.
    """

    time: str
    update: str
    user: str
    secret: str
    type: SecretType


def entries(event: events.Event) -> Iterable[bytes]:
    """Return the log lines of ``event`` (JSON, no newline)."""
    match event:
        case events.SecretsUploaded():  # first, because uploads are the most frequent events
            time, user = timestamp(event.time), event.user
            return [
                _ENCODER.encode(_SecretSet(time, "Secret set", user, each.name, each.type))
                for each in event.uploads
            ]
        case events.BaseLog():
            return event.lines
        case _:
            return _entries(event)


def _entries(event: events.Event) -> Iterator[bytes]:
    match event:
        case events.ManifestSet():
            yield _line(event.time, "Initial manifest set")
        case events.UpdateInitiated() | events.UpdateAcknowledged():
            yield _line(event.time, *_agreement(event))
        case events.UpdateCancelled():
            by = {"user": event.user} if event.user else {}
            text = "Manifest update cancelled"
            if not event.user:
                text += " because it could not be applied"
            yield _line(event.time, text, {**by, "manifestFingerprint": event.fingerprint})
        case events.ManifestUpdated():
            text = "; ".join(("Manifest updated", *event.notes))
            yield _line(event.time, text, {"manifestFingerprint": fingerprint(event.manifest)})
        case events.WorkloadsRevoked():
            yield _line(event.time, "Workloads revoked", _revocation(event))
        case events.PackagesUpdated():
            for package, version in sorted(event.versions.items()):
                raised = {"user": event.user, "package": package, "new version": version}
                yield _line(event.time, "SecurityVersion increased", raised)
        case _:
            return


def _revocation(event: events.WorkloadsRevoked) -> dict[str, object]:
    named = {
        "marbleType": event.marble_type,
        "uuid": event.uuid,
        "platform": event.platform.hex(),
        "reason": event.reason,
    }
    given = {name: value for name, value in named.items() if value}
    return {"user": event.user, "scope": event.scope, **given}


def _agreement(
    event: events.UpdateInitiated | events.UpdateAcknowledged,
) -> tuple[str, dict[str, object]]:
    """Return the text of the log line for ``event``, and the further fields of the line."""
    pending = event.pending
    missing: dict[str, object] = {}
    if isinstance(event, events.UpdateAcknowledged) or pending.missing:
        missing = {
            "missingAcknowledgments": pending.missing,
            "missingUsers": list(pending.missing_users),
        }
    verb = "initiated" if isinstance(event, events.UpdateInitiated) else "acknowledged"
    fingerprints = {"manifestFingerprint": fingerprint(pending.manifest)}
    return f"Manifest update {verb}", {"user": event.user, **missing, **fingerprints}


class UpdateLogView:
    """The update log at one moment, with the audit trail. Later lines are not visible."""

    __slots__ = ("_length", "_lines", "audit")

    def __init__(self, lines: list[bytes], length: int, audit: AuditView) -> None:
        self._lines = lines
        self._length = length
        self.audit: Final = audit  # the trail of activations, at the same revision

    def __len__(self) -> int:
        return self._length

    @property
    def identity(self) -> object:
        """An object that all views of one log share, so callers can compare logs by identity."""
        return self._lines

    def lines(self, start: int = 0) -> list[bytes]:
        """Return the lines of the update log from number ``start`` on, oldest first.

        The first line of the log has the number 0.
        """
        return self._lines[start : self._length]


class UpdateLog:
    """All lines of the update log, oldest first, and the audit trail. Only the engine appends."""

    def __init__(
        self, new_events: Iterable[events.Event] = (), before: UpdateLogView | None = None
    ) -> None:
        self._lines: list[bytes] = before.lines() if before is not None else []
        self._audit = AuditTrail(before.audit if before is not None else None)
        self._audit_view = self._audit.view()
        self.extend(new_events)

    def extend(self, new_events: Iterable[events.Event]) -> tuple[Moved, ...]:
        """Append the lines of ``new_events``, also to the audit trail.

        Return the activated workloads whose platform has changed.
        """
        moved: list[Moved] = []
        for event in new_events:
            self._lines.extend(entries(event))
            if isinstance(event, events.MarblesActivated | events.BaseAudit):
                moved += self._audit.extend(event)
                self._audit_view = self._audit.view()
        return tuple(moved)

    def view(self) -> UpdateLogView:
        """Return a view of the present lines; later lines do not appear in this view.

        The cost is constant, because lines are only appended.
        """
        return UpdateLogView(self._lines, len(self._lines), self._audit_view)


def _line(time: int, update: str, further: Mapping[str, object] | None = None) -> bytes:
    return _ENCODER.encode({"time": timestamp(time), "update": update, **(further or {})})


def timestamp(time: int) -> str:
    """Return ``time``, in microseconds since 1970, as ``2026-01-31T23:59:59.123Z``."""
    second, rest = divmod(time, _SECOND)
    return f"{_to_the_second(second)}.{rest // 1000:03}Z"


@lru_cache(maxsize=2)  # thousands of changes may happen within a second
def _to_the_second(second: int) -> str:
    return moment(second * _SECOND).replace(tzinfo=None).isoformat(timespec="seconds")
