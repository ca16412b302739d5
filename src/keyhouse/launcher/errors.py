"""The errors that keep a workload from starting.

::

    RefusedError
     +-- LaunchRefusedError         an input of the launcher is unusable
     +-- ActivationRefusedError     the coordinator refused, with its message: never retry
     +-- CoordinatorNotTrustedError the peer is not proven to be the coordinator: never retry
    UnavailableError
     +-- NotReachableError          no complete answer arrived: a retry may help
     +-- NotReadyError              the coordinator cannot activate now: a retry may help
    BrokenError
     +-- AnswerUnreadableError      the answer does not match the interface
"""

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError


class LaunchRefusedError(RefusedError):
    """A setting, a file or a delivered parameter of the launcher is unusable."""

    code = "launch-refused"


class ActivationRefusedError(RefusedError):
    """The coordinator refused the activation. ``status`` is the name of its gRPC status."""

    code = "activation-refused"

    def __init__(self, message: str, *, status: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class CoordinatorNotTrustedError(RefusedError):
    """No proof shows that the peer, or the delivered data, belongs to the coordinator."""

    code = "trust-failed"
    next_step = "do not use this coordinator: another machine may answer at this address"


class NotReachableError(UnavailableError):
    """The coordinator sent no complete answer."""

    code = "unreachable"


class NotReadyError(UnavailableError):
    """The coordinator cannot activate now: no manifest yet, recovery mode, too busy."""

    code = "not-ready"


class AnswerUnreadableError(BrokenError):
    """The answer does not match the interface."""

    code = "answer-unreadable"
    next_step = "check that a coordinator of this version answers at this address"
