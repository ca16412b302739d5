"""Answers of the interface as typed values: the data of their JSend envelope, or the refusal.

``old_...`` read version 1 into the values of version 2, only for coordinators that answer 405 to a
call of version 2. There is none for the quote, which would bind no nonce; none for updates, which
may drop the new recovery secrets; and none for what version 1 does not have: recovery, signed
quotes, counters.
"""

import functools
from typing import Any, Final, TypeVar

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.base.printable import shown
from keyhouse.client.errors import (
    AnswerUnreadableError,
    CallRefusedError,
    CallUnknownError,
    ServiceUnavailableError,
)
from keyhouse.client.steps import Answer
from keyhouse.wire import client_api as wire
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.json_parser import UnreadableError

_OK: Final = 200


class _Envelope(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Fields(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _Findings(msgspec.Struct, frozen=True):
    data: wire.Problems = wire.Problems()


class _Anything(msgspec.Struct, frozen=True):
    """An object."""


T = TypeVar("T")
E = TypeVar("E", bound=_Envelope)


def data_of(answer: Answer, kind: type[T], *, optional: bool = False) -> T:
    """Return the data of a successful ``answer`` as a ``kind``.

    If ``optional``, missing data are read as an empty object. Raises ``CallRefusedError`` or
    ``ServiceUnavailableError`` with the coordinator's own words if it refused, and
    ``AnswerUnreadableError`` if the answer is not of the interface.
    """
    return data_and_message(answer, kind, optional=optional)[0]


def data_and_message(answer: Answer, kind: type[T], *, optional: bool = False) -> tuple[T, str]:
    """Return the data of a successful ``answer`` as a ``kind``, and its message; as ``data_of``."""
    hint: Any = kind
    found: Any = _successful(answer, _with_data(hint, optional=optional))
    return found.data, found.message


def require_success(answer: Answer) -> None:
    """Return if ``answer`` is a successful one; its data are ignored. Raises as ``data_of``."""
    _successful(answer, _Envelope)


def document(answer: Answer) -> bytes:
    """Return the body of a successful ``answer`` that has no envelope, a JSON object, as it came.

    Raises what ``data_of`` does.
    """
    if answer.http_status != _OK:
        raise _refusal(answer)
    try:
        decode(answer.body, _Anything)
    except UnreadableError:
        raise AnswerUnreadableError("the coordinator's answer is not a JSON object") from None
    return answer.body


def content(answer: Answer) -> bytes:
    """Return the body of a successful ``answer`` that is not JSON. Raises what ``data_of`` does."""
    if answer.http_status != _OK:
        raise _refusal(answer)
    return answer.body


def log_entry(text: str) -> wire.LogEntry:
    """Return a line of the update log as an entry."""
    try:
        return msgspec.structs.replace(decode(text.encode(), wire.LogEntry), text=text)
    except (UnreadableError, UnicodeEncodeError):
        raise AnswerUnreadableError("a line of the update log is not a JSON object") from None


def old_status(answer: Answer) -> wire.Status:
    """Return the data of ``GET /status``."""
    data = data_of(answer, wire.OldStatusData)
    phase = data.status_code
    return wire.Status(status=phase, code=phase, message=data.status_message)


def old_manifest(answer: Answer) -> wire.ManifestData:
    """Return the data of ``GET /manifest``."""
    data = data_of(answer, wire.OldManifestData)
    if not (data.signature and data.fingerprint and data.manifest):
        raise AnswerUnreadableError(
            "the coordinator's answer has no manifest", hint="has one been set?"
        )
    return wire.ManifestData(data.signature, data.fingerprint, data.manifest)


def old_shares(answer: Answer) -> wire.SetManifestData:
    """Return the data of ``POST /manifest``."""
    return data_of(answer, wire.SetManifestData, optional=True)


def old_secrets(answer: Answer) -> dict[str, wire.SecretObject]:
    """Return the data of ``GET /secrets``."""
    return data_of(answer, dict[str, wire.SecretObject])


def old_log(answer: Answer) -> tuple[wire.LogEntry, ...]:
    """Return the data of ``GET /update``: each entry with its own JSON text."""
    text = data_of(answer, str)  # a JSON array of objects
    try:
        entries = msgspec.json.decode(text or "[]", type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise AnswerUnreadableError("the update log is not a JSON array") from None
    return tuple(log_entry(bytes(entry).decode()) for entry in entries)


@functools.cache
def _with_data(kind: Any, *, optional: bool) -> Any:
    """Return the type of an envelope with ``kind`` as its data."""
    data = msgspec.field(default_factory=kind) if optional else msgspec.NODEFAULT
    fields = [("data", kind, data)]
    return msgspec.defstruct(
        "_EnvelopeOfData", fields, bases=(_Envelope,), kw_only=True, frozen=True
    )


def _successful(answer: Answer, whole: type[E]) -> E:
    if answer.http_status == _OK:
        found = _decoded(answer, whole)
        if found.status == "success":
            return found
    raise _refusal(answer)


def _decoded(answer: Answer, whole: type[E]) -> E:
    try:
        return decode(answer.body, whole)
    except UnreadableError:
        # Its findings could name what an answer with secrets holds; the status is enough.
        raise AnswerUnreadableError(
            f"the coordinator's answer cannot be read (HTTP {answer.http_status})",
            hint="check that it is a coordinator of this version",
        ) from None


def _refusal(answer: Answer) -> CallRefusedError | ServiceUnavailableError | AnswerUnreadableError:
    status, envelope = answer.http_status, _decoded(answer, _Envelope)
    if status == _OK or envelope.status not in {"fail", "error"}:
        return AnswerUnreadableError(f"the coordinator's answer has no JSend status ({status})")
    if answer.is_of_older:
        return CallUnknownError(
            "the coordinator does not know this call", hint="it may be an older version"
        )
    message = shown(envelope.message) or f"refused without a reason (HTTP {status})"
    if answer.is_put_off:
        return ServiceUnavailableError(message, hint="try again later")
    return CallRefusedError(
        status,
        message,
        kind="fail" if envelope.status == "fail" else "error",
        fields={shown(name): shown(why) for name, why in _part(answer, _Fields).data.items()},
        problems=[
            Problem(shown(one.at), shown(one.problem), shown(one.hint))
            for one in _part(answer, _Findings).data.problems
        ],
    )


def _part(answer: Answer, kind: type[T]) -> T:
    """Return the details of a refusal as ``kind``; empty if they are of another kind."""
    try:
        return decode(answer.body, kind)
    except UnreadableError:
        return kind()
