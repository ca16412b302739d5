"""What can go wrong between a client and a coordinator.

::

    Refused
     +-- TrustFailed    the peer is not proven to be the coordinator: never retry, send nothing
     +-- CallRefused    the coordinator said no; ``http_status`` and its own words
     +-- ClientSetup    address, user certificate or key cannot be used
    Unavailable
     +-- Unreachable    no answer; ``sent`` says whether the request may have been carried out
     +-- CallPutOff     the coordinator is too busy or cannot write now
    Broken
     +-- AnswerUnreadable  the answer is not of this interface
"""

from typing import Literal

from keyhouse.wire.errors import Broken, Refused, Unavailable

__all__ = [
    "AnswerUnreadable",
    "CallPutOff",
    "CallRefused",
    "ClientSetup",
    "TrustFailed",
    "Unreachable",
    "shown",
]

_LONGEST = 2_000

FailKind = Literal["fail", "error"]


class TrustFailed(Refused):
    """It is not proven that the peer is the expected coordinator."""

    code = "trust-failed"


class CallRefused(Refused):
    """The coordinator refused the call; nothing has changed there."""

    code = "call-refused"

    def __init__(self, http_status: int, message: str, *, kind: FailKind = "error") -> None:
        super().__init__(message)
        self.http_status = http_status
        self.kind = kind


class ClientSetup(Refused):
    """Something that the caller gave cannot be used."""

    code = "client-setup"


class Unreachable(Unavailable):
    """No whole answer came. If ``sent``, the coordinator may have carried out the request."""

    code = "unreachable"

    def __init__(self, message: str, *, hint: str = "", sent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


class CallPutOff(Unavailable):
    """The coordinator cannot do it now (HTTP 429, 503)."""

    code = "call-put-off"


class AnswerUnreadable(Broken):
    """The answer is not one that the interface has."""

    code = "answer-unreadable"


def shown(text: str) -> str:
    """Return a peer's ``text`` fit to be shown: bounded, control characters escaped."""
    cut = text[:_LONGEST]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
