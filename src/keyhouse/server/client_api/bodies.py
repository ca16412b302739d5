"""Bodies of answers that are equal for many requests. Each is encoded once."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from keyhouse.coordinator import (
    AcceptingManifest,
    Engine,
    Phase,
    Running,
    State,
    UpdateLogView,
    View,
    policy_of,
)
from keyhouse.journal.shared import TRUSTED_FOR_FRESHNESS, kept_on
from keyhouse.manifest import fingerprint
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.services.quotes import QuotedCertificates
from keyhouse.wire import client_api as wire
from keyhouse.wire.field_presence import NULL

_MESSAGES: Final = {
    Phase.RECOVERY: "recovery mode: upload the recovery secrets, or set a new manifest",
    Phase.ACCEPTING_MANIFEST: "ready to accept a manifest",
    Phase.RUNNING: "running: workloads that the manifest names are accepted",
}


_SIMULATION: Final = " (SIMULATION: proves nothing, protects nothing)"


def still_needed(acknowledgements: int) -> str:
    """Return a sentence about missing acknowledgements. Clients parse the number at its start."""
    if acknowledgements == 1:
        return "1 more acknowledgement is needed"
    return f"{acknowledgements} more acknowledgements are needed"


def warnings_message(warnings: Iterable[str]) -> str:
    """Return the message of the answer to a first manifest, or "" without warnings."""
    return "; ".join(f"warning: {warning}" for warning in warnings)


def status_message(answers: Answers, engine: Engine, view: View) -> str:
    """Return the message of the status: phase, lease, and remarks on manifest and database."""
    caveats = [TRUSTED_FOR_FRESHNESS] if engine.process.shares_store else []
    if answers.standbys:
        caveats.append(kept_on(answers.standbys))
    note = engine.lease.note
    begin = [] if note and engine.lease.is_enforced else [_MESSAGES[view.phase]]
    begin += [note] if note else []
    message = "; ".join((*begin, *_known(view.state, engine.current.now()), *caveats))
    return message + (_SIMULATION if answers.simulated else "")


def _known(state: State, now: int) -> tuple[str, ...]:
    if isinstance(state, Running):
        policy = policy_of(state.manifest)
        expired = policy.expired_users(now)
        note = f"certificates of users that have expired and still identify them: {expired}"
        return (*policy.caveats, note) if expired else policy.caveats
    return (state.note,) if isinstance(state, AcceptingManifest) and state.note else ()


def evidence_body(evidence: QuotedCertificates) -> bytes:
    """Return the data of ``GET /api/v2/quote``, encoded as JSON."""
    return msgspec.json.encode(wire.EvidenceData(evidence.certificates, evidence.quote))


@lru_cache(maxsize=2)
def _manifest_body(raw: bytes, signature: bytes) -> bytes:
    return msgspec.json.encode(wire.ManifestData(signature, fingerprint(raw), raw))


@lru_cache(maxsize=2)
def pending_body(manifest: bytes, missing: int, users: tuple[str, ...]) -> bytes:
    """Return the data about a pending update to ``manifest``, encoded as JSON.

    The update needs ``missing`` more acknowledgements; ``users`` have not acknowledged it yet.
    """
    return msgspec.json.encode(wire.Pending(manifest, still_needed(missing), users))


@lru_cache(maxsize=2)
def _manifest_body_1(raw: bytes, signature: bytes) -> bytes:
    return msgspec.json.encode(wire.OldManifestData(signature, fingerprint(raw), raw))


_NO_MANIFEST_1: Final = msgspec.json.encode(wire.OldManifestData(NULL, "", NULL))


def manifest_body_1(state: Running | None) -> bytes:
    """Return the data of ``GET /manifest``, with empty fields before the first manifest.

    ``state``: None before the first manifest.
    """
    return _manifest_body_1(state.manifest, state.signature) if state else _NO_MANIFEST_1


def manifest_body(state: Running) -> bytes:
    """Return the data of ``GET /api/v2/manifest``: signature, fingerprint, uploaded bytes."""
    return _manifest_body(state.manifest, state.signature)


_LOG_HEAD, _LOG_TAIL = msgspec.json.encode(wire.UpdateLogData(())).split(b"[]")


class LogBody:
    """The data of ``GET /api/v2/update``. Each line of the update log is encoded only once."""

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
        # The log whose lines are encoded.
        self._of: object = None
        self._length = -1
        self._body = b""

    def of(self, log: UpdateLogView) -> bytes:
        """Return the data for the update log ``log``, encoded as JSON."""
        if log.identity is not self._of or len(log) < len(self._encoded):
            self._encoded, self._of, self._length = [], log.identity, -1
        if len(log) != self._length:
            fresh = log.lines(len(self._encoded))
            self._encoded += [self.line(line) for line in fresh]
            self._body = self.whole(self._encoded)
            self._length = len(log)
        return self._body

    def line(self, line: bytes) -> bytes:
        """Return ``line``, a line of the update log, encoded as a JSON string."""
        return msgspec.json.encode(line.decode("utf-8"))

    def whole(self, encoded: list[bytes]) -> bytes:
        """Return the data with the lines ``encoded``, which are JSON already."""
        return b"%b[%b]%b" % (_LOG_HEAD, b",".join(encoded), _LOG_TAIL)


class LogText(LogBody):
    """The data of ``GET /update``: a JSON string with a JSON array in it, as in version 1."""

    def line(self, line: bytes) -> bytes:
        """Return ``line``, a line of the update log, encoded as a part of a JSON string."""
        return super().line(line)[1:-1]

    def whole(self, encoded: list[bytes]) -> bytes:
        """Return the data, one JSON string, from the ``encoded`` lines."""
        return b'"[%b]"' % b",".join(encoded)
