"""Activations that have happened and are not journalled yet: nobody waits for them.

They go along with the next commit, or have one of their own after a moment. A crash loses what
waits here. When the disk takes nothing for so long that this is full, nobody is activated any
more: an activation that could never be audited must not happen.
"""

from collections import deque
from itertools import islice
from typing import Final

from keyhouse.base.errors import Unavailable
from keyhouse.coordinator.core.commands import RecordActivations
from keyhouse.coordinator.core.events import Activated

__all__ = ["DELAY", "MOST", "AuditBuffer"]

DELAY: Final = 1.0
"""Seconds that an activation waits at most for its record, while the disk takes any."""

MANY: Final = 128
"""As many do not wait any longer."""

TOGETHER: Final = 256
"""Activations in one record."""

MOST: Final = 10_000
"""Activations that may wait."""


class AuditBuffer:
    """A queue, oldest first. Times are those of the event loop, in seconds."""

    def __init__(self) -> None:
        self._waiting: deque[Activated] = deque()
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, activated: Activated, now: float) -> bool:
        """Take one more; return whether the writer has to look again when it is due.

        Raises ``Unavailable`` if too many wait.
        """
        if len(self._waiting) >= MOST:
            raise Unavailable("activations cannot be recorded", hint="free space on the disk")
        if not self._waiting:
            self._due = now + DELAY
        self._waiting.append(activated)
        return len(self._waiting) in {1, MANY}

    def due(self, now: float) -> bool:
        """Tell whether a record has to be written, though no other change is."""
        return bool(self._waiting) and (now >= self._due or len(self._waiting) >= MANY)

    def due_at(self) -> float | None:
        """Return when that will be; None while nothing waits."""
        return self._due if self._waiting else None

    def oldest(self) -> RecordActivations:
        """Return the record of the oldest. They wait on until ``recorded``."""
        return RecordActivations(tuple(islice(self._waiting, TOGETHER)))

    def recorded(self, record: RecordActivations, now: float) -> None:
        """Forget what ``record``, the oldest, has made durable."""
        for _ in record.activations:
            self._waiting.popleft()
        self._due = now + DELAY

    def put_off(self, now: float) -> None:
        """Wait for another moment: the disk takes nothing."""
        self._due = now + DELAY

    def give_up(self) -> int:
        """Forget all of them; return how many they were."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost
