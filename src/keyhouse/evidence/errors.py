"""The errors of evidence that does not prove its claims."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.transparency.errors import LogInvalidError


class Step(StrEnum):
    """The steps of a verification, in their order."""

    FILE = "file"
    DEPLOYMENT = "deployment"
    LOG_KEY = "log key"
    TREE = "tree"
    WITNESSES = "witnesses"
    HARDWARE = "hardware"
    HISTORY = "history"
    GAPS = "gaps"


class EvidenceRefusedError(KeyhouseError):
    """The evidence fails a verification. ``step`` is the first failed step.

    The text repeats no unverified content, except numbers, and names in quotation marks.
    """

    code = "evidence-refused"
    next_step = "do not rely on this file; ask its sender for a complete and current file"

    def __init__(self, step: Step, problem: str, *, hint: str = "") -> None:
        super().__init__(f"not proven, at the step {step}: {problem}", hint=hint)
        self.step = step
        self.problem = problem

    @property
    def reason(self) -> str:
        """The step, as a stable word for programs."""
        return self.step


class HistoryRefusedError(KeyhouseError):
    """The leaves of a log contradict each other, or state an impossible action of a coordinator."""

    code = "history-refused"


@contextmanager
def refused_at(step: Step) -> Iterator[None]:
    """Raise an ``EvidenceRefusedError`` of ``step`` for each refusal in the block."""
    try:
        yield
    except (LogInvalidError, HistoryRefusedError, RefusedError) as error:
        raise EvidenceRefusedError(step, error.message, hint=error.hint) from None
