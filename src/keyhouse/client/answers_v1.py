"""The answers of version 1 of the interface, as the values of version 2.

Only for coordinators that answer 405 to a call of version 2. There is none for the quote, which
would bind no nonce; none for updates, which may drop the new recovery secrets; and none for what
version 1 does not have: recovery, signed quotes, counters.
"""

import msgspec

from keyhouse.client.envelope import data_of, log_entry
from keyhouse.client.errors import AnswerUnreadable
from keyhouse.client.steps import Answer
from keyhouse.wire.client_api import (
    LogEntry,
    ManifestData,
    OldManifestData,
    OldStatusData,
    SecretObject,
    SetManifestData,
    Status,
)

__all__ = ["old_log", "old_manifest", "old_secrets", "old_shares", "old_status"]


def old_status(answer: Answer) -> Status:
    """Return the data of ``GET /status``."""
    data = data_of(answer, OldStatusData)
    phase = data.status_code
    return Status(status=phase, code=phase, message=data.status_message)


def old_manifest(answer: Answer) -> ManifestData:
    """Return the data of ``GET /manifest``."""
    data = data_of(answer, OldManifestData)
    if not (data.signature and data.fingerprint and data.manifest):
        raise AnswerUnreadable("the coordinator's answer has no manifest", hint="is there one?")
    return ManifestData(data.signature, data.fingerprint, data.manifest)


def old_shares(answer: Answer) -> SetManifestData:
    """Return the data of ``POST /manifest``."""
    return data_of(answer, SetManifestData, optional=True)


def old_secrets(answer: Answer) -> dict[str, SecretObject]:
    """Return the data of ``GET /secrets``."""
    return data_of(answer, dict[str, SecretObject])


def old_log(answer: Answer) -> tuple[LogEntry, ...]:
    """Return the data of ``GET /update``: each entry with its own JSON text."""
    text = data_of(answer, str)  # a JSON array of objects
    try:
        entries = msgspec.json.decode(text or "[]", type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise AnswerUnreadable("the update log is no JSON array") from None
    return tuple(log_entry(bytes(entry).decode()) for entry in entries)
