"""The JSend envelope of an answer: its data as typed values, or the refusal that it is."""

from typing import Final, TypeVar

import msgspec

from keyhouse.client.answers import LogEntry, NoAnswer
from keyhouse.client.errors import AnswerUnreadable, CallPutOff, CallRefused, shown
from keyhouse.client.steps import Answer
from keyhouse.wire.errors import Problem
from keyhouse.wire.jsonreader import Unreadable, decode

__all__ = ["data_of", "document", "log_entry"]

_OK: Final = 200
_LATER: Final = frozenset({429, 503})
_OLD_SERVER: Final = 405


class _Envelope(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Fields(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _Problems(msgspec.Struct, frozen=True):
    problems: tuple[Problem, ...] = ()


class _Findings(msgspec.Struct, frozen=True):
    data: _Problems = _Problems()


T = TypeVar("T")


def data_of(answer: Answer, kind: type[T]) -> T:
    """Return the envelope of a successful ``answer`` as a ``kind``.

    Raises ``CallRefused`` or ``CallPutOff`` with the coordinator's own words if it said no, and
    ``AnswerUnreadable`` if this is no answer of the interface.
    """
    try:
        envelope = decode(answer.body, _Envelope)
        if answer.http_status == _OK and envelope.status == "success":
            return decode(answer.body, kind)
    except Unreadable:
        # Its findings could name what an answer with secrets holds; the status is enough.
        raise AnswerUnreadable(
            f"the coordinator's answer cannot be read (HTTP {answer.http_status})",
            hint="is it a coordinator, and of this version?",
        ) from None
    raise _refusal(answer, envelope)


def document(answer: Answer) -> bytes:
    """Return the body of a successful ``answer`` that has no envelope, a JSON object, as it came.

    Raises what ``data_of`` does.
    """
    if answer.http_status != _OK:
        data_of(answer, NoAnswer)
    try:
        decode(answer.body, NoAnswer)
    except Unreadable:
        raise AnswerUnreadable("the coordinator's answer is no JSON object") from None
    return answer.body


def log_entry(text: str) -> LogEntry:
    """Return a line of the update log as an entry."""
    try:
        return msgspec.structs.replace(decode(text.encode(), LogEntry), text=text)
    except (Unreadable, UnicodeEncodeError):
        raise AnswerUnreadable("a line of the update log is no JSON object") from None


def _refusal(answer: Answer, envelope: _Envelope) -> CallRefused | CallPutOff | AnswerUnreadable:
    status = answer.http_status
    if status == _OK or envelope.status not in {"fail", "error"}:
        return AnswerUnreadable(f"the coordinator's answer has no JSend status ({status})")
    if status == _OLD_SERVER:
        return AnswerUnreadable("the coordinator does not know this call", hint="is it older?")
    message = shown(envelope.message) or f"refused without a reason (HTTP {status})"
    if status in _LATER:
        return CallPutOff(message, hint="try again later")
    return CallRefused(
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
    """Return the details of a refusal as ``kind``; those of another kind are none of it."""
    try:
        return decode(answer.body, kind)
    except Unreadable:
        return kind()
