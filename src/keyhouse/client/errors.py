"""The errors between a client and a coordinator.

::

    RefusedError
     +-- TrustError               the peer is not proven to be the coordinator: never retry
     +-- CallRefusedError         the coordinator refused: ``reason``, ``fields``, its message
     +-- ClientSetupError         an address, user certificate or key is unusable
    UnavailableError
     +-- UnreachableError         no answer; if ``sent``, the call may have been carried out
     +-- ServiceUnavailableError  the coordinator is too busy or cannot write now
    BrokenError
     +-- AnswerUnreadableError    the answer does not match the interface
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
"""The reason for each HTTP status of a refusal. For any further status, the reason is "refused"."""


class TrustError(RefusedError):
    """No proof shows that the peer is the expected coordinator."""

    code = "trust-failed"
    next_step = "send nothing to this coordinator; ask its operator"


class CallRefusedError(RefusedError):
    """The coordinator refused the call. Nothing has changed there, unless ``reason`` is "broken".

    ``fields`` maps each wrong field of the request to an explanation. For an invalid manifest,
    ``problems`` has every problem, and ``reason`` is "invalid".
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
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.http_status = http_status
        self.kind = kind
        self.fields = dict(fields or {})
        self.problems = tuple(problems)

    @property
    def reason(self) -> str:
        """A stable word for programs: a value of ``REASONS``, "invalid" or "refused"."""
        return "invalid" if self.problems else REASONS.get(self.http_status, "refused")


class ClientSetupError(RefusedError):
    """The caller passed an unusable value: a key, a file, an address or a setting."""

    code = "client-setup"


class UnreachableError(UnavailableError):
    """No complete answer arrived, or the answer leaves the outcome of the change open.

    ``sent``: the coordinator may have carried out the change.

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
    """The coordinator cannot carry out the call now (HTTP 429, 503). Nothing has changed there."""

    code = "call-put-off"


class AnswerUnreadableError(BrokenError):
    """The answer does not match the interface."""

    code = "answer-unreadable"
    next_step = "check that a coordinator of this version answers at this address"


class CallUnknownError(AnswerUnreadableError):
    """The coordinator is an older version without the call."""
