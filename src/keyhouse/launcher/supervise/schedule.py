"""The times of the agent: the coordinator's clock, pauses after failures, and refusals.

The host's wall clock decides nothing. The agent counts its own elapsed time from the time in the
coordinator's last answer. After a suspension of the machine, elapsed time may be too short. So each
answer sets the time again.
"""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from keyhouse.base.errors import UnavailableError

SECOND: Final = 1_000_000  # microseconds
NEVER: Final = float("inf")
LATER: Final = 600.0
"""Seconds until the next attempt after a refusal that only people can end."""

_FIRST: Final = 1.0  # seconds: the first pause after a failure
_LONGEST: Final = 300.0  # seconds
_TOLERANCE: Final = 60 * SECOND
"""Difference of the clocks in microseconds that the agent reports."""


class ChannelError(UnavailableError):
    """A call of the channel failed.

    ``refusal``: the code of the coordinator's error, or the kind of the failure, such as ``away``.
    ``is_temporary``: a later attempt may succeed. No failure ends a running program.
    """

    code = "channel"
    # Every error begins a pause before the next attempt, and the coordinator's text has its own.
    next_step = ""

    def __init__(
        self, message: str, *, refusal: str, hint: str = "", is_temporary: bool = True
    ) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal
        self.is_temporary = is_temporary


_LATER: Final = frozenset(
    {"not-enabled", "revoked", "superseded", "fork", "unimplemented", "activation-refused"}
)


class Backoff:
    """Pauses with decorrelated jitter, from 1 second to 5 minutes.

    Each pause is a random time between the first pause and three times the pause before. So agents
    that lost a coordinator at the same time do not return at the same time.
    """

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._last = 0.0

    def pause(self) -> float:
        """Return the next pause of this series, in seconds."""
        self._last = min(_LONGEST, self._uniform(_FIRST, max(_FIRST, 3 * self._last)))
        return self._last

    def reset(self) -> None:
        """Begin a new series with a short pause, because an attempt has succeeded."""
        self._last = 0.0

    def pause_after(self, refusal: str) -> float:
        """Return the seconds until the next attempt after ``refusal``, the code of an error."""
        return LATER if refusal in _LATER else self.pause()


class CoordinatorClock:
    """The coordinator's time: from its last answer, plus the elapsed time since then.

    ``elapsed`` and ``wall``: the clocks of this machine, in seconds.
    """

    def __init__(
        self,
        elapsed: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._elapsed = elapsed
        self._wall = wall
        self._coordinator_time = 0  # microseconds since 1970
        self._at = 0.0  # elapsed time of the answer
        self.is_apart = False  # whether the wall clock differs by more than 60 seconds

    def set(self, now: int) -> None:
        """Record ``now``, the coordinator's time in an answer: microseconds since 1970."""
        self._coordinator_time, self._at = now, self._elapsed()
        self.is_apart = abs(self._wall() * SECOND - now) > _TOLERANCE

    def now(self) -> int:
        """Return the coordinator's time: microseconds since 1970."""
        return self._coordinator_time + int((self._elapsed() - self._at) * SECOND)

    def until(self, moment: int) -> float:
        """Return the seconds until ``moment``, microseconds since 1970; at least 0."""
        return max(0.0, (moment - self.now()) / SECOND)


def utc(moment: int) -> str:
    """Return ``moment``, microseconds since 1970, as text in UTC, to the second."""
    at = datetime.fromtimestamp(moment // SECOND, UTC)
    return at.isoformat().replace("+00:00", "Z")
