"""Limit the time of a process: at most a year ahead of the known time.

The host can set its clock to any time. The known time at the start is the newest of three times:
the build time of this code, the newest time in the journal at its opening, and the host's time at a
start that an operator confirmed. Afterwards the known time advances only with the elapsed time,
measured by the process. Times that this process journals do not change the known time. So many
small jumps of the clock lead no further than a single jump.

If the host's clock is more than a year ahead of the known time, the process ignores the clock. The
time of the process then continues from the last accepted time. Decision 0008 has the reasons.
"""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.version import BUILD_TIME
from keyhouse.coordinator.core.context import moment

CLOCK_EVERY: Final = 3600
"""The longest time between two readings of the clock in a running process, in seconds."""

_SECOND: Final = 1_000_000  # microseconds

# Microseconds, chosen: the process reads the clock twice in this time.
_LONGEST_STEP: Final = 2 * CLOCK_EVERY * _SECOND


class Clock(Protocol):
    """A source of time. Any thread may use the source."""

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        ...

    def elapsed(self) -> int:
        """Return microseconds since a fixed moment of this process; never decreases.

        A change of the time of day does not affect the result. The result may be less than the time
        that has passed.
        """
        ...


class HostClock:
    """The host's clock. The host may set it to any time.

    ``monotonic`` returns nanoseconds. The default is CLOCK_MONOTONIC, which stops while the machine
    is suspended. CLOCK_BOOTTIME is not usable: after a suspend, the hardware clock sets both
    CLOCK_BOOTTIME and the time of day. So a wrong hardware clock would move both.
    """

    def __init__(self, monotonic: Callable[[], int] = time.monotonic_ns) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen = monotonic()
        self._elapsed = 0

    def now(self) -> int:
        """Return the host's time."""
        return time.time_ns() // 1000

    def moment(self) -> datetime:
        """Return the host's time in UTC."""
        return moment(self.now())

    def elapsed(self) -> int:
        """Return the microseconds since the start of this clock.

        Between two readings, at most two hours count.

        Under Gramine, a jump of the time of day also moves the monotonic clock. The process reads
        the clock every hour. So a step of more than two hours is such a jump, or a pause of the
        process. Only two hours of such a step count.
        """
        with self._lock:
            seen = self._monotonic()
            step = max(seen - self._seen, 0) // 1000
            self._elapsed += min(step, _LONGEST_STEP)
            self._seen = seen
            return self._elapsed


_DAY: Final = 24 * 3600 * 1_000_000  # microseconds
_YEAR: Final = 365 * _DAY

_FOLLOWED: Final = "the clock of this machine is followed again"
_NOT_FOLLOWED: Final = (
    "the clock of this machine is more than a year ahead of the known time: it is not followed"
)


class SecurityClock:
    """The time of the clock ``host``, at most a year ahead of the known time. For any thread.

    ``known``: the known time at the start of the process, in microseconds since 1970.
    ``is_followed``: at the last reading, the host's clock was at most a year ahead. ``jumps``
    counts how often the host's clock has moved further ahead.
    """

    def __init__(self, host: Clock, known: int = BUILD_TIME, *, jumps: int = 0) -> None:
        self._host = host
        self._began = host.elapsed()
        self._known = max(known, BUILD_TIME)
        self._last = (self._known, self._began)
        self._lock = threading.Lock()
        self.jumps = jumps
        self.is_followed = True

    def after(self, newest: int) -> "SecurityClock":
        """Return a clock whose known time is at least ``newest``.

        ``newest``: the newest time in the journal at its opening, in microseconds since 1970.
        Raises ``BrokenError`` if the host's clock is more than a year ahead of this known time.
        """
        known = self._known + self._host.elapsed() - self._began
        clock = SecurityClock(self._host, max(known, newest), jumps=self.jumps)
        if clock.is_ahead():
            raise BrokenError(
                "the clock of this machine is more than a year ahead of the newest journalled time",
                hint="set the clock; if the clock is right, start once with --confirm-clock",
            )
        return clock

    def elapsed(self) -> int:
        """Return the microseconds since the start of this process, by the host's clock."""
        return self._host.elapsed()

    def is_ahead(self) -> bool:
        """Return whether the host's clock is more than a year ahead of the known time."""
        return self._host.now() > self._bound(self._host.elapsed())

    def require_near(self) -> None:
        """Refuse to begin a deployment while the host's clock is wrong.

        Raises ``UnavailableError`` if the clock is more than a year ahead of the known time.
        """
        if self.is_ahead():
            raise UnavailableError(
                "the clock of this machine is more than a year ahead of the time that the"
                " coordinator expects",
                hint="set the clock; if the clock is right, start with --confirm-clock",
            )

    def now(self) -> int:
        """Return the host's time, but at least the known time at the start of the process.

        The unit is microseconds since 1970. If the host's clock is more than a year ahead of the
        known time, the result continues from the last accepted time.
        """
        host, elapsed = self._host.now(), self._host.elapsed()
        follows = host <= self._bound(elapsed)
        # The common case needs only one assignment and no lock.
        if follows and self.is_followed:
            time = max(host, self._known)
            self._last = (time, elapsed)
            return time
        with self._lock:
            if follows:
                self._last = (max(host, self._known), elapsed)
            time, at = self._last
            changed, self.is_followed = follows != self.is_followed, follows
            self.jumps += changed and not follows
        if changed:
            log.warning(_FOLLOWED if follows else _NOT_FOLLOWED, days_ahead=_days(host - time))
        return time if follows else time + elapsed - at

    def _bound(self, elapsed: int) -> int:
        return self._known + elapsed - self._began + _YEAR


def _days(time: int) -> int:
    return time // _DAY
