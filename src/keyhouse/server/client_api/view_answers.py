"""Answers to reads, kept for as long as their view is the current one."""

from typing import Final

from keyhouse.coordinator import View
from keyhouse.server.http.exchange import Admission, Answer, Head

ROOM: Final = 12 * 1024 * 1024
"""Bytes of the answers that are kept at a time, and as much again of those kept before them.

Enough for ten thousand secrets that one user reads one by one. Memory is taken as it is used.
"""

LARGEST: Final = 16 * 1024
"""Bytes of the largest body that is kept, and of the longest target and certificate together."""

_OVERHEAD: Final = 512
"""Bytes that an answer takes beside its body, its target and its certificate."""


class ViewAnswers:
    """What was answered to exactly this request, by exactly this caller, from exactly this view.

    A view never changes, so the same question has the same answer until the next change publishes
    another view. From then on no kept answer is given: a lost permission counts at once. Refusals
    are not kept: anonymous clients cannot fill this.

    Two generations: when the room of the young one is used up it becomes the old one, and what was
    old and not asked for again meanwhile is forgotten. So nothing is looked through to make room.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._view: View | None = None
        self._young: dict[Head, Answer] = {}
        self._old: dict[Head, Answer] = {}
        self._used = 0  # by the young generation

    def get(self, view: View, head: Head) -> Answer | None:
        """Return the answer that ``view`` gave to an equal ``head``, if it is still kept."""
        if view is not self._view:
            return None
        answer = self._young.get(head)
        if answer is None and self._old:
            answer = self._old.pop(head, None)
            if answer is not None:
                self._put(head, answer)
        return answer

    def keep(self, view: View, head: Head, answer: Answer | Admission) -> None:
        """Keep a complete answer that is not too large."""
        if isinstance(answer, Admission) or len(answer.body) > LARGEST:
            return
        if _asked(head) > LARGEST:
            return
        if view is not self._view:
            self._view, self._young, self._old, self._used = view, {}, {}, 0
        self._put(head, answer)

    def _put(self, head: Head, answer: Answer) -> None:
        self._used += _asked(head) + len(answer.body) + _OVERHEAD
        if self._used > self._room:
            self._old, self._young = self._young, {}
            self._used = _asked(head) + len(answer.body) + _OVERHEAD
        self._young[head] = answer


def _asked(head: Head) -> int:
    return len(head.path) + len(head.query) + len(head.identity or b"")
