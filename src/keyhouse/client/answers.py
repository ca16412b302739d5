"""Answers of the interface as typed values: the data of their JSend envelope, or the refusal.

The functions ``old_...`` convert version 1 to the values of version 2. They serve only coordinators
that answer 405 to a call of version 2. Three groups of calls have no such function. A quote of
version 1 binds no nonce. An update in version 1 may lose the new recovery secrets. Recovery, signed
quotes and counters do not exist in version 1.
"""

import functools
from typing import Any, Final, TypeVar

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.base.printable import excerpt
from keyhouse.client.effects import HttpAnswer
from keyhouse.client.errors import (
    AnswerUnreadableError,
    CallRefusedError,
    CallUnknownError,
    ServiceUnavailableError,
)
from keyhouse.wire import client_api as wire
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.json_parser import UnreadableError

_OK: Final = 200  # HTTP status, RFC 9110


class _Envelope(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Fields(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _ProblemList(msgspec.Struct, frozen=True):
    data: wire.Problems = wire.Problems()


class _Anything(msgspec.Struct, frozen=True):
    """Any JSON object: serves the check that an answer is an object."""


T = TypeVar("T")
E = TypeVar("E", bound=_Envelope)


def data_of(answer: HttpAnswer, kind: type[T], *, optional: bool = False) -> T:
    """Return the data of a successful ``answer`` as a value of the type ``kind``.

    If ``optional``, missing data count as an empty object. Raises ``CallRefusedError`` or
    ``ServiceUnavailableError`` with the coordinator's message for a refusal. Raises
    ``AnswerUnreadableError`` for an answer that does not match the interface.
    """
    return data_and_message(answer, kind, optional=optional)[0]


def data_and_message(answer: HttpAnswer, kind: type[T], *, optional: bool = False) -> tuple[T, str]:
    """Return the data and message of a successful ``answer``. Raises as ``data_of`` does."""
    hint: Any = kind
    envelope: Any = _successful(answer, _with_data(hint, optional=optional))
    return envelope.data, envelope.message


def require_success(answer: HttpAnswer) -> None:
    """Require a successful ``answer`` and ignore its data. Raises as ``data_of`` does."""
    _successful(answer, _Envelope)


def document(answer: HttpAnswer) -> bytes:
    """Return the body of a successful ``answer`` that is a JSON object without an envelope.

    Raises as ``data_of`` does.
    """
    if answer.http_status != _OK:
        raise _refusal(answer)
    try:
        decode(answer.body, _Anything)
    except UnreadableError:
        raise AnswerUnreadableError("the coordinator's answer is not a JSON object") from None
    return answer.body


def content(answer: HttpAnswer) -> bytes:
    """Return the body of a successful ``answer`` that is not JSON. Raises as ``data_of`` does."""
    if answer.http_status != _OK:
        raise _refusal(answer)
    return answer.body


def log_entry(text: str) -> wire.LogEntry:
    """Return the entry of the update log in ``text``, a JSON object.

    Raises ``AnswerUnreadableError``.
    """
    try:
        return msgspec.structs.replace(decode(text.encode(), wire.LogEntry), text=text)
    except (UnreadableError, UnicodeEncodeError):
        raise AnswerUnreadableError("an entry of the update log is not a JSON object") from None


def old_status(answer: HttpAnswer) -> wire.Status:
    """Return the phase in the ``answer`` to ``GET /status``, version 1."""
    data = data_of(answer, wire.OldStatusData)
    phase = data.status_code
    return wire.Status(status=phase, code=phase, message=data.status_message)


def old_manifest(answer: HttpAnswer) -> wire.ManifestData:
    """Return the manifest in the ``answer`` to ``GET /manifest``, version 1."""
    data = data_of(answer, wire.OldManifestData)
    if not (data.signature and data.fingerprint and data.manifest):
        raise AnswerUnreadableError(
            "the coordinator's answer has no manifest",
            hint="check that a manifest is set: keyhouse status",
        )
    return wire.ManifestData(data.signature, data.fingerprint, data.manifest)


def old_shares(answer: HttpAnswer) -> wire.SetManifestData:
    """Return the recovery shares in the ``answer`` to ``POST /manifest``, version 1."""
    return data_of(answer, wire.SetManifestData, optional=True)


def old_secrets(answer: HttpAnswer) -> dict[str, wire.SecretObject]:
    """Return the secrets by name in the ``answer`` to ``GET /secrets``, version 1."""
    return data_of(answer, dict[str, wire.SecretObject])


def old_log(answer: HttpAnswer) -> tuple[wire.LogEntry, ...]:
    """Return the update log in the ``answer`` to ``GET /update``, version 1.

    Each entry also has its own JSON text.
    """
    text = data_of(answer, str)  # a JSON array of objects
    try:
        entries = msgspec.json.decode(text or "[]", type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise AnswerUnreadableError("the update log is not a JSON array") from None
    return tuple(log_entry(bytes(entry).decode()) for entry in entries)


@functools.cache
def _with_data(kind: Any, *, optional: bool) -> Any:
    """Return the type of an envelope with data of the type ``kind``.

    ``optional``: absent data count as an empty value of this type.
    """
    data = msgspec.field(default_factory=kind) if optional else msgspec.NODEFAULT
    fields = [("data", kind, data)]
    return msgspec.defstruct(
        "_EnvelopeOfData", fields, bases=(_Envelope,), kw_only=True, frozen=True
    )


def _successful(answer: HttpAnswer, whole: type[E]) -> E:
    if answer.http_status == _OK:
        envelope = _decoded(answer, whole)
        if envelope.status == "success":
            return envelope
    raise _refusal(answer)


def _decoded(answer: HttpAnswer, whole: type[E]) -> E:
    try:
        return decode(answer.body, whole)
    except UnreadableError:
        # The decoder's findings could quote an answer with secrets. The status is enough.
        raise AnswerUnreadableError(
            f"the coordinator's answer cannot be read (HTTP {answer.http_status})"
        ) from None


def _refusal(
    answer: HttpAnswer,
) -> CallRefusedError | ServiceUnavailableError | AnswerUnreadableError:
    status, envelope = answer.http_status, _decoded(answer, _Envelope)
    if status == _OK or envelope.status not in {"fail", "error"}:
        return AnswerUnreadableError(
            f"the coordinator's answer (HTTP {status}) has no status of JSend, which it must have"
        )
    if answer.is_of_older:
        return CallUnknownError(
            "the coordinator does not know this call",
            hint="upgrade the coordinator: its version may be older than this client",
        )
    message = excerpt(envelope.message) or f"refused without a reason (HTTP {status})"
    if answer.is_deferred:
        return ServiceUnavailableError(message)
    return CallRefusedError(
        status,
        message,
        kind="fail" if envelope.status == "fail" else "error",
        fields={excerpt(name): excerpt(why) for name, why in _part(answer, _Fields).data.items()},
        problems=[
            Problem(excerpt(one.at), excerpt(one.problem), excerpt(one.hint))
            for one in _part(answer, _ProblemList).data.problems
        ],
    )


def _part(answer: HttpAnswer, kind: type[T]) -> T:
    """Return the details of a refusal as a value of the type ``kind``.

    Details of a different form give an empty value.
    """
    try:
        return decode(answer.body, kind)
    except UnreadableError:
        return kind()
