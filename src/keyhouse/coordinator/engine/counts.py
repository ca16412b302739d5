"""Count the engine's changes for the metrics, and log refused changes."""

from typing import Final

from keyhouse.base.errors import KeyhouseError, RefusedError, UnavailableError, UnsettledError
from keyhouse.base.histogram import Tally
from keyhouse.base.log import log
from keyhouse.coordinator.core.commands import StaleError

OUTCOMES: Final = ("accepted", "refused", "stale", "unavailable", "unknown", "broken")
"""The outcomes of changes.

``stale``: the state had changed, so the change was prepared again. ``unknown``: the caller learned
that the change may have happened. If it has happened, it also counts as accepted.
"""

_MOST_REASONS: Final = 8  # the most reasons in the log, chosen: they fit on one line
_COMMANDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


class EngineCounts:
    """Changes by outcome, the sizes of batches, and the seconds until a batch was durable."""

    def __init__(self) -> None:
        self.changes: Final = dict.fromkeys(OUTCOMES, 0)
        self.batch: Final = Tally(_COMMANDS)
        self.commit: Final = Tally(_SECONDS)

    def committed(self, commands: int, seconds: float) -> None:
        """Count a batch of ``commands`` that is durable after ``seconds``."""
        self.changes["accepted"] += commands
        self.batch.add(commands)
        self.commit.add(seconds)

    def failed(self, error: BaseException) -> None:
        """Count a change that failed with ``error``."""
        self.changes[_outcome(error)] += 1


class NotStored:
    """The changes that the store has refused since the last stored change.

    The log states each reason once, and the number of refused changes when the refusals end. A full
    disk refuses every change, so a line for each change would fill the log.
    """

    def __init__(self) -> None:
        self._count = 0
        self._reasons: set[str] = set()

    def add(self, error: KeyhouseError, changes: int) -> None:
        """Count ``changes`` refused with ``error``; log a new reason."""
        self._count += changes
        reason = str(error)
        if reason not in self._reasons and len(self._reasons) < _MOST_REASONS:
            self._reasons.add(reason)
            log.warning("a change could not be stored", reason=reason)

    def ended(self) -> None:
        """Log that the store accepts changes again, and reset the count of failures."""
        if self._count:
            log.info("changes are stored again", not_stored=self._count)
            self._count = 0
            self._reasons.clear()


def _outcome(error: BaseException) -> str:
    if isinstance(error, StaleError):
        return "stale"
    if isinstance(error, UnavailableError):
        return "unavailable"
    if isinstance(error, UnsettledError):
        return "unknown"
    return "refused" if isinstance(error, RefusedError) else "broken"
