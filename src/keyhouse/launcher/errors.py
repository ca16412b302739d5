"""The errors that keep a workload from starting.

::

    Refused
     +-- LaunchRefused         what the launcher was given, or was told to do, cannot be
     +-- ActivationRefused     the coordinator said no, in its own words: never try again
     +-- CoordinatorNotTrusted the peer is not proven to be the coordinator: never try again
    Unavailable
     +-- NotReachable          no whole answer came; trying again may help
     +-- NotReady              the coordinator cannot activate now; trying again may help
    Broken
     +-- AnswerUnreadable      the answer is not of this interface
"""

from keyhouse.base.errors import Broken, Refused, Unavailable

__all__ = [
    "ActivationRefused",
    "AnswerUnreadable",
    "CoordinatorNotTrusted",
    "LaunchRefused",
    "NotReachable",
    "NotReady",
]


class LaunchRefused(Refused):
    """Something that the launcher was given, or was told to do, is not possible."""

    code = "launch-refused"


class ActivationRefused(Refused):
    """The coordinator refused the activation. ``status`` is the name of its gRPC status."""

    code = "activation-refused"

    def __init__(self, message: str, *, status: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class CoordinatorNotTrusted(Refused):
    """It is not proven that the peer, or what it delivered, is the coordinator's."""

    code = "trust-failed"


class NotReachable(Unavailable):
    """No whole answer came."""

    code = "unreachable"


class NotReady(Unavailable):
    """The coordinator cannot activate now: no manifest yet, recovery mode, too busy."""

    code = "not-ready"


class AnswerUnreadable(Broken):
    """The answer is not one that the interface has."""

    code = "answer-unreadable"
