"""Attempt the steps of a trial; print progress and errors on standard error."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from keyhouse.attestation.errors import CollateralUnusableError, QuoteRefusedError
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.printable import printable
from keyhouse.cli.doctor.hardware.report import Outcome, Section

T = TypeVar("T")
S = TypeVar("S", bound=Section)

PASSED: Final = Section(outcome="passed")


class StepFailedError(KeyhouseError):
    """A step of the trial had another result than expected."""

    code = "step-failed"


def attempt(
    text: str, work: Callable[[], T], needs: Mapping[str, Section] | None = None
) -> tuple[Section, T | None]:
    """Do a step of the trial; return its outcome, and the result of ``work`` or None.

    The result is None if the step failed or was skipped. ``text`` describes the step to people.
    ``needs`` has earlier steps by name. The step is skipped unless all of them passed. The
    function catches only errors that Keyhouse raises on purpose.
    """
    for name, section in (needs or {}).items():
        if section.outcome != "passed":
            return Section(outcome="skipped", reason=f"{name}-{section.outcome}"), None
    say(f"{text} ...")
    try:
        return PASSED, work()
    except KeyhouseError as error:
        say(f"  failed: {error.message}")
        if error.hint:
            say(f"  next step: {error.hint}")
        return Section(outcome="failed", reason=reason_of(error)), None


def say(text: str) -> None:
    """Print ``text`` as a line of progress."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def reason_of(error: KeyhouseError) -> str:
    """Return a stable word for ``error``, as the reason in a hardware report.

    The word is the reason of the quote's verifier. Without such a reason, the word is the code of
    the innermost cause that is a ``KeyhouseError``.

    A report has no messages and no reasons from a coordinator's answer, because both can contain
    addresses and paths.
    """
    word = type(error).code
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, QuoteRefusedError | CollateralUnusableError):
            return cause.reason.value
        if isinstance(cause, KeyhouseError):
            word = type(cause).code
        cause = cause.__cause__
    return word


def worst(sections: Iterable[Section]) -> Section:
    """Return the first failed section, else the first skipped section, else a passed section."""
    listed = tuple(sections)
    order: tuple[Outcome, ...] = ("failed", "skipped")
    for outcome in order:
        for section in listed:
            if section.outcome == outcome:
                return section
    return PASSED


def as_section(kind: type[S], section: Section, **fields: object) -> S:
    """Return a section of the type ``kind``: outcome and reason of ``section``, and ``fields``."""
    return kind(outcome=section.outcome, reason=section.reason, **fields)
