"""The errors that keep a workload from starting.

::

    RefusedError
     +-- LaunchRefusedError         what the launcher was given, or was told to do, cannot be
     +-- ActivationRefusedError     the coordinator said no, in its own words: never try again
     +-- CoordinatorNotTrustedError the peer is not proven to be the coordinator: never try again
    UnavailableError
     +-- NotReachableError          no whole answer came; trying again may help
     +-- NotReadyError              the coordinator cannot activate now; trying again may help
    BrokenError
     +-- AnswerUnreadableError      the answer is not of this interface
"""

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError


class LaunchRefusedError(RefusedError):
    """Something that the launcher was given, or was told to do, is not possible."""

    code = "launch-refused"


class ActivationRefusedError(RefusedError):
    """The coordinator refused the activation. ``status`` is the name of its gRPC status."""

    code = "activation-refused"

    def __init__(self, message: str, *, status: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class CoordinatorNotTrustedError(RefusedError):
    """It is not proven that the peer, or what it delivered, is the coordinator's."""

    code = "trust-failed"


class NotReachableError(UnavailableError):
    """No whole answer came."""

    code = "unreachable"


class NotReadyError(UnavailableError):
    """The coordinator cannot activate now: no manifest yet, recovery mode, too busy."""

    code = "not-ready"


class AnswerUnreadableError(BrokenError):
    """The answer is not one that the interface has."""

    code = "answer-unreadable"
