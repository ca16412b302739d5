"""One exchange with a coordinator, repeated only if the repetition cannot do anything twice.

==================================  =================================  ====================
outcome of an attempt               GET                                POST
==================================  =================================  ====================
no connection: refused, timed out   again                              again: nothing was sent
no complete answer                  again: it changes nothing          never: it may be done
"later" (HTTP 429, 503)             again                              again: nothing was done
anything else: a refusal, a broken  never                              never
answer, failed trust
==================================  =================================  ====================

``AGAIN`` is the same table; tests compare it with the behaviour.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.client.effects import HttpAnswer, HttpRequest, Steps, pause, send
from keyhouse.client.errors import ClientSetupError, UnreachableError


class Failure(StrEnum):
    """The reason why an attempt has no final answer.

    "deferred": the coordinator asks for a later retry (HTTP 429, 503).
    """

    NOT_CONNECTED = "not connected"
    NO_COMPLETE_ANSWER = "no complete answer"
    DEFERRED = "deferred"


AGAIN: Final = frozenset(
    {
        ("GET", Failure.NOT_CONNECTED),
        ("GET", Failure.NO_COMPLETE_ANSWER),
        ("GET", Failure.DEFERRED),
        ("POST", Failure.NOT_CONNECTED),
        ("POST", Failure.DEFERRED),
    }
)


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts in seconds. ``total`` is for a whole call with all its attempts and pauses.

    Raises ``ClientSetupError`` for an invalid number of seconds.
    """

    connect: float = 10.0  # TCP and TLS each
    read: float = 30.0  # between two pieces of an answer, or of a request
    total: float = 60.0

    def __post_init__(self) -> None:
        """Require that each timeout is greater than 0. A NaN fails this comparison, too."""
        if not all(seconds > 0 for seconds in (self.connect, self.read, self.total)):
            raise ClientSetupError(
                "timeouts must be greater than 0 seconds", hint="pass a longer timeout"
            )

    @classmethod
    def of(cls, timeout: "float | Timeouts") -> "Timeouts":
        """Return ``timeout`` as timeouts. A number is the total, and the limit of each wait."""
        if isinstance(timeout, Timeouts):
            return timeout
        plain = cls()
        return cls(min(timeout, plain.connect), min(timeout, plain.read), timeout)


class Retries(msgspec.Struct, frozen=True):
    """The pauses before each further attempt, in seconds. Their number is the number of retries.

    The coordinator's header ``Retry-After`` can lengthen a pause, up to ``longest`` seconds.
    """

    pauses: tuple[float, ...] = (0.1, 0.5)
    longest: float = 5.0


NO_RETRIES: Final = Retries(())


class Rules(msgspec.Struct, frozen=True):
    """The timeouts and the retries of a call."""

    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()


def exchange(
    request: HttpRequest, rules: Rules, fresh: Callable[[], None] = lambda: None
) -> Steps[HttpAnswer]:
    """Return the answer to ``request``, sent again after the failures in ``AGAIN``.

    ``fresh`` is called before each attempt, to discard data of the attempt before. Raises the
    ``UnreachableError`` of the last attempt. An error of another class ends the attempts.
    """
    deadline = time.monotonic() + rules.timeouts.total
    timed = msgspec.structs.replace(request, deadline=deadline)
    attempt = 0
    while True:
        fresh()
        outcome: HttpAnswer | UnreachableError
        try:
            outcome = yield from send(timed)
        except UnreachableError as unreachable:
            outcome = unreachable
        attempt += 1
        left = deadline - time.monotonic()
        seconds = pause_before(attempt, request.method, outcome, rules.retries, left)
        if seconds is None:
            if isinstance(outcome, UnreachableError):
                raise outcome
            return outcome
        yield from pause(seconds)


def failure_of(outcome: HttpAnswer | UnreachableError) -> Failure | None:
    """Return the failure of an attempt, or None for a final answer."""
    if isinstance(outcome, HttpAnswer):
        return Failure.DEFERRED if outcome.is_deferred else None
    return Failure.NO_COMPLETE_ANSWER if outcome.connected else Failure.NOT_CONNECTED


def pause_before(
    attempt: int, method: str, outcome: HttpAnswer | UnreachableError, retries: Retries, left: float
) -> float | None:
    """Return the pause in seconds before retry number ``attempt``, or None without a retry.

    The first retry has number 1. ``left`` is the number of seconds until the end of the whole call.
    """
    if (method, failure_of(outcome)) not in AGAIN or attempt > len(retries.pauses):
        return None
    seconds = retries.pauses[attempt - 1]
    if isinstance(outcome, HttpAnswer):
        seconds = max(seconds, min(_retry_after(outcome.retry_after), retries.longest))
    return seconds if seconds < left else None


def _retry_after(header: str) -> float:
    """Return the seconds in ``Retry-After``. A date, the second form of the header, counts as 0."""
    return float(header) if header.isascii() and header.isdecimal() and len(header) < 9 else 0.0  # noqa: PLR2004
