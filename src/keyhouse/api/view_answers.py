"""Answers to reads, kept for as long as their view is the current one."""

from typing import Final

from keyhouse.api.exchange import Admission, Answer, Head
from keyhouse.coordinator import View

__all__ = ["ViewAnswers"]

MOST: Final = 1024
"""Answers kept at a time; when there are more, all are forgotten."""

LARGEST: Final = 16 * 1024
"""Bytes of the largest body that is kept, and of the longest target and certificate together."""


class ViewAnswers:
    """What was answered to exactly this request, by exactly this caller, from exactly this view.

    A view never changes, so the same question has the same answer until the next change publishes
    another view; from then on nothing kept counts, whoever lost which permission. Refusals are not
    kept: strangers cannot fill this.
    """

    def __init__(self) -> None:
        self._view: View | None = None
        self._answers: dict[Head, Answer] = {}

    def get(self, view: View, head: Head) -> Answer | None:
        """Return the answer that ``view`` gave to an equal ``head``, if it is still kept."""
        return self._answers.get(head) if view is self._view else None

    def keep(self, view: View, head: Head, answer: Answer | Admission) -> None:
        """Keep a complete answer that is not too large."""
        if isinstance(answer, Admission) or len(answer.body) > LARGEST:
            return
        if len(head.path) + len(head.query) + len(head.identity or b"") > LARGEST:
            return
        if view is not self._view or len(self._answers) >= MOST:
            self._view, self._answers = view, {}
        self._answers[head] = answer
