"""Counts of the engine since the process began, for the metrics."""

from typing import Final

from keyhouse.base.errors import RefusedError, UnavailableError, UnsettledError
from keyhouse.base.tally import Tally
from keyhouse.coordinator.core.commands import StaleError

OUTCOMES: Final = ("accepted", "refused", "stale", "unavailable", "unknown", "broken")
"""Results of changes. ``stale``: the state had changed, so it was prepared again.

``unknown``: its caller was told that it may have happened. If it has, it is accepted as well.
"""

_COMMANDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


class EngineCounts:
    """Changes by outcome, the sizes of batches, and the seconds until a batch was durable."""

    def __init__(self) -> None:
        self.changes: Final = dict.fromkeys(OUTCOMES, 0)
        self.batch: Final = Tally(_COMMANDS)
        self.commit: Final = Tally(_SECONDS)

    def committed(self, commands: int, seconds: float) -> None:
        """Count a batch that is durable now."""
        self.changes["accepted"] += commands
        self.batch.add(commands)
        self.commit.add(seconds)

    def failed(self, error: BaseException) -> None:
        """Count one change that failed with ``error``."""
        self.changes[_outcome(error)] += 1


def _outcome(error: BaseException) -> str:
    if isinstance(error, StaleError):
        return "stale"
    if isinstance(error, UnavailableError):
        return "unavailable"
    if isinstance(error, UnsettledError):
        return "unknown"
    return "refused" if isinstance(error, RefusedError) else "broken"
