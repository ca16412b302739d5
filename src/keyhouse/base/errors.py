"""The tree of errors that Keyhouse raises on purpose.

::

    KeyhouseError
     +-- RefusedError           the caller made a mistake; nothing has changed
     |    +-- BadRequestError        the request is unreadable or a field is invalid      400 fail
     |    +-- TooLargeError          a part of the request exceeds a limit                413 fail
     |    +-- UnauthenticatedError   the caller has no certificate of a user              401 fail
     |    +-- ForbiddenError         the user lacks a permission, or a gate is closed     403
     |    +-- NotFoundError          the named object does not exist                      404
     |    +-- GoneError              only an older version of the interface had it        410
     |    +-- WrongPhaseError        the coordinator is in another phase                  409
     |    +-- ConflictError          the request contradicts the state or an update       409
     |    +-- InvalidError           the content breaks rules; lists every problem        400
     +-- UnavailableError       try again later: full disk, too busy, shutting down       503
     +-- UnsettledError         the change may have happened: read before a retry         503
     +-- BrokenError            an invariant does not hold; an operator must look         500

The last column is the HTTP status of the answer. The body of the answer has the format JSend. Its
field ``status`` is ``fail`` where the column says so, otherwise ``error``. ``code`` is stable and
for programs. The text is for people and names the value, the place and the next step. No text
contains a secret, a value from secret input, or a message of a library.

``Findings`` collects every problem of a value for an ``InvalidError``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, Self

import msgspec

from keyhouse.base.printable import Place, at


class Problem(msgspec.Struct, frozen=True, order=True):
    """A problem or warning: its place, a description and a hint for the next step.

    ``at`` is a path such as ``Marbles.web.TLS[0]``. It is empty if the problem concerns the whole
    value. Map keys that are not plain words are quoted: ``Secrets["my key"].Size``.
    """

    at: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.at}: " if self.at else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.problem}{hint}"


class KeyhouseError(Exception):
    """Base of all errors that are raised on purpose. ``hint`` names the next step for the user.

    A class can define ``next_step``: the hint of its errors without a hint of their own.
    """

    code: ClassVar[str] = "error"
    next_step: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.next_step

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def release_frames(error: BaseException) -> None:
    """Remove tracebacks, causes and contexts from ``error``, to free memory at once.

    Call this function after the answer about ``error`` has been made. A traceback holds the frames
    of all calls, with their values, such as the body of a request. A frame often refers to the task
    that raised ``error``, and so back to ``error``: only the garbage collector would free such a
    cycle. Errors of the JSON and UTF-8 decoders, as causes, also hold their whole input.
    """
    left = [error]
    while left:
        each = left.pop()
        left += [behind for behind in (each.__cause__, each.__context__) if behind is not None]
        each.__traceback__ = each.__cause__ = each.__context__ = None


class RefusedError(KeyhouseError):
    """The caller made a mistake. Nothing has changed."""

    code = "refused"

    @classmethod
    def no_effect(cls, option: str, hint: str) -> Self:
        """Return the error for an ``option`` without effect in this combination of options."""
        return cls(f"{option} has no effect here", hint=hint)


class BadRequestError(RefusedError):
    """The request is invalid. ``fields`` maps each invalid field of the request to a reason."""

    code = "bad-request"

    def __init__(
        self, message: str, *, fields: Mapping[str, str] | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.fields = dict(fields or {})


class TooLargeError(BadRequestError):
    """A part of the request exceeds its limit."""

    code = "too-large"


class UnauthenticatedError(RefusedError):
    """The caller presented no certificate, or a certificate that belongs to no user."""

    code = "unauthenticated"


class ForbiddenError(RefusedError):
    """The user lacks the permission, or the manifest does not enable the feature."""

    code = "forbidden"


class NotFoundError(RefusedError):
    """The object that the request names does not exist."""

    code = "not-found"


class GoneError(RefusedError):
    """Only an older version of the interface had this path."""

    code = "gone"


class WrongPhaseError(RefusedError):
    """The coordinator is in a phase that does not allow the operation."""

    code = "wrong-phase"


class ConflictError(RefusedError):
    """The request contradicts the state or a pending update."""

    code = "conflict"


class InvalidError(RefusedError):
    """Content breaks rules. ``what`` names the content, such as "the manifest".

    ``problems``: all violations, sorted by place.
    """

    code = "invalid"

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.what = what
        self.problems = tuple(sorted(problems))
        shown = "; ".join(str(problem) for problem in self.problems[:20])
        more = len(self.problems) - 20
        rest = f"; and {more} more" if more > 0 else ""
        super().__init__(f"{what}: {shown}{rest}")


class UnavailableError(KeyhouseError):
    """The operation is not possible now, but may succeed later. Nothing has changed."""

    code = "unavailable"
    next_step = "try again later"


class UnsettledError(KeyhouseError):
    """The outcome of the change is unknown. Read the state before you repeat the request."""

    code = "outcome-unknown"
    next_step = "read the state before you repeat the change"


class BrokenError(KeyhouseError):
    """An invariant does not hold. The process must stop, and an operator must find the cause."""

    code = "broken"
    next_step = "report this line: it shows a defect of Keyhouse"


class StartAgainError(BrokenError):
    """This process cannot continue, but a new process can: the supervisor should restart it."""

    code = "start-again"
    next_step = "start this process again"


MOST: Final = 1_000
"""Largest number of reported problems, and of warnings: bounds the work for a hostile value."""

_TOO_MANY: Final = Problem(
    "",
    f"has more than {MOST} problems; only the first {MOST} are listed",
    "correct the listed problems, then check again",
)


class TooManyError(Exception):
    """Ends a check early: the value has more than ``MOST`` (1,000) problems."""


class Findings:
    """The problems and warnings of one value. A value with a problem is refused."""

    __slots__ = ("problems", "warnings")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(self, place: Place, problem: str, hint: str = "") -> None:
        """Add a problem at ``place``. Raise ``TooManyError`` after more than ``MOST`` (1,000)."""
        self.problems.append(Problem(at(*place), problem, hint))
        if len(self.problems) > MOST:
            raise TooManyError

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Add a warning at ``place``. Drop warnings after the first ``MOST`` (1,000)."""
        if len(self.warnings) < MOST:
            self.warnings.append(Problem(at(*place), problem, hint))


def reported(problems: Iterable[Problem]) -> list[Problem]:
    """Return ``problems`` sorted by place, without repetitions, at most ``MOST`` (1,000).

    If the result lacks problems, its last item says so. ``problems`` may include an earlier result
    of this function.
    """
    found = set(problems)
    kept = sorted(found - {_TOO_MANY})[:MOST]
    return kept if len(kept) == len(found) else [*kept, _TOO_MANY]
