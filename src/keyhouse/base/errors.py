"""The tree of errors that Keyhouse raises on purpose.

::

    KeyhouseError
     +-- RefusedError           the caller's doing; nothing has changed
     |    +-- BadRequestError        the request itself: unreadable, a broken field rule  400 fail
     |    +-- TooLargeError          a limit on a part of the request                     413 fail
     |    +-- UnauthenticatedError   no certificate of a user                             401 fail
     |    +-- ForbiddenError         a user without the permission, or a closed gate      403
     |    +-- NotFoundError          nothing there (never: an unknown path)               404
     |    +-- GoneError              was here in an older version of the interface        410
     |    +-- WrongPhaseError        not in this phase of the coordinator                 409
     |    +-- ConflictError          contradicts what is stored or pending                409
     |    +-- InvalidError           content that breaks the rules: every problem at once 400
     +-- UnavailableError       try again later: full disk, too busy, shutting down       503
     +-- UnsettledError         it may have happened: read before you repeat it           503
     +-- BrokenError            an invariant does not hold; an operator has to look       500

``code`` is stable and for programs, the text is for people: what, where, and what to do.
No text carries a secret, a value from secret-bearing input, or a library's own message.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import msgspec


class Problem(msgspec.Struct, frozen=True, order=True):
    """One finding: where, what, and what to do about it.

    ``at`` is a path such as ``Marbles.web.TLS[0]`` (empty: the whole); map keys that are not plain
    words are quoted: ``Secrets["my key"].Size``.
    """

    at: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.at}: " if self.at else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.problem}{hint}"


class KeyhouseError(Exception):
    """Base of all errors that are raised on purpose. ``hint`` says what to do."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class RefusedError(KeyhouseError):
    """The caller's doing. Nothing has changed."""

    code = "refused"

    @classmethod
    def no_effect(cls, option: str, hint: str) -> Self:
        """Return that ``option`` was given where nothing reads it."""
        return cls(f"{option} has no effect here", hint=hint)


class BadRequestError(RefusedError):
    """The request itself is wrong. ``fields`` maps each field at fault to its reason."""

    code = "bad-request"

    def __init__(
        self, message: str, *, fields: Mapping[str, str] | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.fields = dict(fields or {})


class TooLargeError(BadRequestError):
    """A part of the request is over its limit."""

    code = "too-large"


class UnauthenticatedError(RefusedError):
    """The caller presented no certificate, or one of no user."""

    code = "unauthenticated"


class ForbiddenError(RefusedError):
    """The caller is known and may not do this, or the manifest has not enabled it."""

    code = "forbidden"


class NotFoundError(RefusedError):
    """What was asked for does not exist."""

    code = "not-found"


class GoneError(RefusedError):
    """Was here in an older version of the interface."""

    code = "gone"


class WrongPhaseError(RefusedError):
    """The coordinator is not in a phase in which this can be done."""

    code = "wrong-phase"


class ConflictError(RefusedError):
    """What was asked for contradicts what is stored or pending."""

    code = "conflict"


class InvalidError(RefusedError):
    """Content that breaks the rules: ``what`` it is, and every finding, sorted by place."""

    code = "invalid"

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.what = what
        self.problems = tuple(sorted(problems))
        shown = "; ".join(str(problem) for problem in self.problems[:20])
        more = len(self.problems) - 20
        rest = f"; and {more} more" if more > 0 else ""
        super().__init__(f"{what}: {shown}{rest}")


class UnavailableError(KeyhouseError):
    """Cannot be done now; the same request may succeed later. Nothing has changed."""

    code = "unavailable"


class UnsettledError(KeyhouseError):
    """Whether the change has happened is not known yet: read before you repeat it."""

    code = "outcome-unknown"


class BrokenError(KeyhouseError):
    """Something that must hold does not. Stop and tell an operator."""

    code = "broken"


class StartAgainError(BrokenError):
    """This process cannot continue but a new one can: its supervisor should start it again."""

    code = "start-again"
