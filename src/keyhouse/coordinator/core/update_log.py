"""The update log: the events as text for people. Derived from the events, never stored separately.

Source: ``docs/reference/manifest.md``, "Update log": one JSON object on a line, ``time`` first,
``update`` second.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.audit_trail import AuditTrail, AuditView, Moved
from keyhouse.coordinator.core.timestamps import timestamp
from keyhouse.manifest import fingerprint
from keyhouse.wire.secret_types import SecretType

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
