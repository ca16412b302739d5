"""Run the steps of a hardware trial; print progress and errors on standard error."""

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
    """A step of the trial had an unexpected result."""

    code = "step-failed"
    next_step = "send the report with the lines above to the authors of Keyhouse"


def attempt(
    text: str, work: Callable[[], T], needs: Mapping[str, Section] | None = None
) -> tuple[Section, T | None]:
    """Run ``work``, a step of the trial; return the step's outcome, and the result of ``work``.

    If the step failed or was skipped, None is in place of the result of ``work``. ``text``
    describes the step to people. ``needs`` has the outcomes of earlier steps by name. The step is
    skipped unless all these steps passed. The step fails if ``work`` raises a ``KeyhouseError``.
    The function catches no further exceptions.
    """
    for name, section in (needs or {}).items():
        if section.outcome != "passed":
            return Section(outcome="skipped", reason=f"{name}-{section.outcome}"), None
    print_line(f"{text} ...")
    try:
        return PASSED, work()
    except KeyhouseError as error:
        print_line(f"  failed: {error.message}")
        if error.hint:
            print_line(f"  next step: {error.hint}")
        return Section(outcome="failed", reason=reason_of(error)), None


def print_line(text: str) -> None:
    """Print ``text`` as a line of progress."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def reason_of(error: KeyhouseError) -> str:
    """Return a stable word for ``error``, as the reason in a hardware report.

    If the verifier refused a quote or collateral, the word is the verifier's reason. Otherwise, the
    word is the code of the innermost cause that is a ``KeyhouseError``.

    A report has neither messages nor texts from a coordinator's answer, because both can contain
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
    """Return the outcome of all ``sections`` together.

    The result is the first failed section, else the first skipped section, else a passed section.
    """
    listed = tuple(sections)
    order: tuple[Outcome, ...] = ("failed", "skipped")
    for outcome in order:
        for section in listed:
            if section.outcome == outcome:
                return section
    return PASSED


def as_section(kind: type[S], section: Section, **fields: object) -> S:
    """Return a section of the class ``kind`` with outcome and reason of ``section``.

    ``fields`` are the values for the further fields of the class.
    """
    return kind(outcome=section.outcome, reason=section.reason, **fields)
