"""The activation audit buffer: activations that have happened and are not in the journal yet.

No caller waits for them. They are committed together with the next change, or by themselves after
a short delay. A crash loses what is in the buffer. While the disk accepts no write, the buffer
fills; when it is full, activations are refused, because each one must be auditable.
"""

from collections import deque
from itertools import islice
from typing import Final

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator.core.commands import RecordActivations
from keyhouse.coordinator.core.events import Activated

DELAY: Final = 1.0
"""Longest wait of an activation for its record, in seconds, while the disk accepts writes."""

MANY: Final = 128
"""With this many activations in the buffer a record is written without further delay."""

TOGETHER: Final = 256
"""Activations in one record."""

MOST: Final = 10_000
"""Capacity of the buffer."""


class AuditBuffer:
    """A queue, oldest first. Times are those of the event loop, in seconds."""

    def __init__(self) -> None:
        self._waiting: deque[Activated] = deque()
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, activated: Activated, now: float) -> bool:
        """Add one; return whether the engine has to check again when the next record is due.

        Raises ``UnavailableError`` if the buffer is full.
        """
        if len(self._waiting) >= MOST:
            raise UnavailableError("activations cannot be recorded", hint="free space on the disk")
        if not self._waiting:
            self._due = now + DELAY
        self._waiting.append(activated)
        return len(self._waiting) in {1, MANY}

    def due(self, now: float) -> bool:
        """Tell whether a record has to be written even if there is no other change."""
        return bool(self._waiting) and (now >= self._due or len(self._waiting) >= MANY)

    def due_at(self) -> float | None:
        """Return when a record will be due; None while the buffer is empty."""
        return self._due if self._waiting else None

    def oldest(self) -> RecordActivations:
        """Return a record of the oldest ones. They stay in the buffer until ``recorded``."""
        return RecordActivations(tuple(islice(self._waiting, TOGETHER)))

    def recorded(self, record: RecordActivations, now: float) -> None:
        """Remove what ``record``, from ``oldest``, has made durable."""
        for _ in record.activations:
            self._waiting.popleft()
        self._due = now + DELAY

    def put_off(self, now: float) -> None:
        """Try again after the delay: the disk accepts no write now."""
        self._due = now + DELAY

    def give_up(self) -> int:
        """Empty the buffer; return how many activations are lost."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost
