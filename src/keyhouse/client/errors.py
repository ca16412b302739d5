"""What can go wrong between a client and a coordinator.

::

    RefusedError
     +-- TrustError               the peer is not proven to be the coordinator: never retry
     +-- CallRefusedError         the coordinator said no; ``reason``, ``fields``, its own words
     +-- ClientSetupError         address, user certificate or key cannot be used
    UnavailableError
     +-- UnreachableError         no answer; ``sent``: it may have been carried out
     +-- ServiceUnavailableError  the coordinator is too busy or cannot write now
    BrokenError
     +-- AnswerUnreadableError    the answer is not of this interface
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from keyhouse.base.errors import BrokenError, Problem, RefusedError, UnavailableError

FailKind = Literal["fail", "error"]

REASONS: Final[Mapping[int, str]] = {
    400: "bad-request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    408: "too-slow",
    409: "conflict",
    410: "gone",
    413: "too-large",
    414: "too-large",
    415: "bad-request",
    431: "too-large",
    500: "broken",
    501: "not-implemented",
}
"""HTTP status to the reason of a refusal; any other is "refused"."""


class TrustError(RefusedError):
    """It is not proven that the peer is the expected coordinator."""

    code = "trust-failed"


class CallRefusedError(RefusedError):
    """The coordinator refused the call; nothing has changed there, unless ``reason`` is "broken".

    ``fields``: each field of the request at fault, with why. ``problems``: every finding in a
    manifest; then ``reason`` is "invalid".
    """

    code = "call-refused"

    def __init__(
        self,
        http_status: int,
        message: str,
        *,
        kind: FailKind = "error",
        fields: Mapping[str, str] | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.kind = kind
        self.fields = dict(fields or {})
        self.problems = tuple(problems)

    @property
    def reason(self) -> str:
        """A stable word for programs: one of ``REASONS``, "invalid" or "refused"."""
        return "invalid" if self.problems else REASONS.get(self.http_status, "refused")


class ClientSetupError(RefusedError):
    """Something that the caller gave cannot be used."""

    code = "client-setup"


class UnreachableError(UnavailableError):
    """No whole answer came, or one that leaves it open whether the change has happened.

    If ``sent``, the coordinator may have carried it out.

    ``connected``: there was a connection, so the request may have arrived.
    """

    code = "unreachable"

    def __init__(
        self, message: str, *, hint: str = "", sent: bool = False, connected: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent
        self.connected = connected or sent


class ServiceUnavailableError(UnavailableError):
    """The coordinator cannot do it now (HTTP 429, 503). Nothing has changed there."""

    code = "call-put-off"


class AnswerUnreadableError(BrokenError):
    """The answer is not one that the interface has."""

    code = "answer-unreadable"


class CallUnknownError(AnswerUnreadableError):
    """The coordinator does not know the call."""
