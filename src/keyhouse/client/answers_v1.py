"""The answers of version 1 of the interface, as the values of version 2.

Only for coordinators that answer 405 to a call of version 2. There is none for the quote, which
would bind no nonce; none for updates, which may drop the new recovery secrets; and none for what
version 1 does not have: recovery, signed quotes, counters.
"""

import msgspec

from keyhouse.client.answers import (
    LogEntry,
    ManifestData,
    SecretObject,
    SetData,
    Status,
)
from keyhouse.client.envelope import data_of, log_entry
from keyhouse.client.errors import AnswerUnreadable
from keyhouse.client.steps import Answer
from keyhouse.wire.jsonreader import UInt64

__all__ = ["old_log", "old_manifest", "old_secrets", "old_shares", "old_status"]


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    status_code: UInt64
    status_message: str = ""


class _Manifest(msgspec.Struct, frozen=True):
    signature: bytes = msgspec.field(name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(name="manifestSignature")
    manifest: bytes


class _Shares(msgspec.Struct, frozen=True):
    """One of the two names is used, or both with the same values."""

    recovery_keys: dict[str, bytes] = msgspec.field(default={}, name="recoveryKeys")
    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")


def old_status(answer: Answer) -> Status:
    """Return the data of ``GET /status``."""
    data = data_of(answer, _Status)
    return Status(data.status_code, data.status_message)


def old_manifest(answer: Answer) -> ManifestData:
    """Return the data of ``GET /manifest``."""
    data = data_of(answer, _Manifest)
    return ManifestData(
        signature=data.signature, fingerprint=data.fingerprint, manifest=data.manifest
    )


def old_shares(answer: Answer) -> SetData:
    """Return the data of ``POST /manifest``."""
    data = data_of(answer, _Shares, optional=True)
    return SetData(data.recovery_secrets or data.recovery_keys)


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
