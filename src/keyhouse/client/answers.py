"""The coordinator's answers: the JSend envelope, and the data in it as typed values."""

from typing import TypeVar

import msgspec

from keyhouse.client.errors import AnswerUnreadable, CallPutOff, CallRefused, shown
from keyhouse.client.steps import Answer
from keyhouse.wire.errors import Problem
from keyhouse.wire.jsonreader import UInt64, Unreadable, decode
from keyhouse.wire.secret import Secret

__all__ = [
    "CounterAnswer",
    "LogAnswer",
    "LogEntry",
    "ManifestAnswer",
    "ManifestData",
    "NoAnswer",
    "Pending",
    "PendingAnswer",
    "QuoteAnswer",
    "QuoteData",
    "SecretObject",
    "SecretsAnswer",
    "SetAnswer",
    "SetData",
    "SignQuoteAnswer",
    "SignedQuote",
    "Status",
    "StatusAnswer",
    "UpdateAnswer",
    "UpdateEnvelope",
    "data_of",
    "document",
    "log_entry",
]

_OK = 200
_LATER = frozenset({429, 503})
_OLD_SERVER = 405


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/status``: 1 recovery, 2 accepting a manifest, 3 running."""

    code: UInt64
    message: str = ""


class QuoteData(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/quote``."""

    cert: str  # PEM: intermediate, then root
    quote: bytes


class ManifestData(msgspec.Struct, frozen=True):
    """Data of ``GET /api/v2/manifest``."""

    signature: bytes = msgspec.field(name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(name="manifestFingerprint")
    manifest: bytes


class SetData(msgspec.Struct, frozen=True):
    """Data of ``POST /api/v2/manifest``: key name to encrypted share."""

    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")


class SecretObject(msgspec.Struct, frozen=True, rename="camel"):
    """A secret as the coordinator shows it. ``None``: a user has not uploaded it yet."""

    type: str
    size: UInt64 = 0  # bits
    shared: bool = False
    user_defined: bool = False
    cert: bytes = b""  # DER
    valid_for: UInt64 = 0  # days
    private: Secret | None = None
    public: Secret | None = None


class SecretsData(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/secrets``."""

    secrets: dict[str, SecretObject]


class LogData(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/update``."""

    update_log: tuple[str, ...] = ()


class LogEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the update log. ``text`` is the whole JSON text, with all its keys."""

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    update: str = ""
    user: str = ""
    text: str = ""


class UpdateAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """How far an update has come. With nothing missing it is in force."""

    missing_acknowledgments: UInt64
    missing_users: tuple[str, ...] = ()  # who may still agree; may be more than are needed
    recovery_secrets: dict[str, bytes] = {}  # new encrypted shares by key name: kept first of all
    message: str = ""  # in the coordinator's words: warnings, and what it does to the users

    @property
    def applied(self) -> bool:
        """Whether the update is in force."""
        return self.missing_acknowledgments == 0


class Pending(msgspec.Struct, frozen=True, rename="camel"):
    """An update that waits for acknowledgements."""

    manifest: bytes  # exactly these bytes have to be acknowledged
    missing_users: tuple[str, ...] = ()
    message: str = ""


class StatusAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: Status


class QuoteAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: QuoteData


class ManifestAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: ManifestData


class SetAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: SetData


class SecretsAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: SecretsData


class LogAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: LogData


class UpdateEnvelope(msgspec.Struct, frozen=True):
    """Envelope. A message is here, or in the data."""

    data: UpdateAnswer
    message: str = ""


class PendingAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: Pending


class NoAnswer(msgspec.Struct, frozen=True):
    """Envelope of calls whose data mean nothing."""


class SignedQuote(msgspec.Struct, frozen=True, rename="camel"):
    """What the root key has signed of a quote: ``base64(quote)`` and then ``tcb_status``."""

    tcb_status: str
    signature: bytes = msgspec.field(name="verificationSignature")  # ECDSA, ASN.1 DER


class SignQuoteAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: SignedQuote


class CounterValue(msgspec.Struct, frozen=True):
    """Data of ``POST /api/v2/monotonic-counter``: the value before the call."""

    value: UInt64


class CounterAnswer(msgspec.Struct, frozen=True):
    """Envelope."""

    data: CounterValue


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
