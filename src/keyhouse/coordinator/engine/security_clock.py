"""The time of one process: the host's, but never a year ahead of what is known without the host.

Known is the newest time of: the build of this code, the journal as it was found, and the host's
clock at a start that an operator confirmed. It moves on with the time that the process measures
itself, and with nothing else: not with what this process journals, so that many jumps, each of
which is small enough, lead no further than one.

A clock that is further ahead is not followed: the time goes on from where it was followed last.
"""

import threading
from typing import Final

import structlog

from keyhouse.base.errors import Broken
from keyhouse.coordinator.clock import BUILD_TIME, Clock

__all__ = ["SecurityClock"]

log = structlog.get_logger(__name__)

_DAY: Final = 24 * 3600 * 1_000_000  # microseconds
_YEAR: Final = 365 * _DAY

_FOLLOWED: Final = "the clock of this machine is followed again"
_NOT_FOLLOWED: Final = (
    "the clock of this machine is more than a year ahead of what is known: it is not followed"
)


class SecurityClock:
    """Bounds ``host`` by ``known`` (microseconds since 1970). May be read on any thread.

    ``jumps``: how often the host's clock went too far ahead. ``is_followed``: whether it was within
    the bound when the time was read last.
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
        """Return a clock that also knows ``newest``, the newest time of a journal as it was found.

        Raises:
            Broken: the host's clock is more than a year ahead of that, too.
        """
        known = self._known + self._host.elapsed() - self._began
        clock = SecurityClock(self._host, max(known, newest), jumps=self.jumps)
        if clock.is_ahead():
            raise Broken(
                "the clock of this machine is more than a year ahead of the newest journalled time",
                hint="set the clock; if it is right, start once with --confirm-clock",
            )
        return clock

    def is_ahead(self) -> bool:
        """Tell whether the host's clock is more than a year ahead of what is known."""
        return self._host.now() > self._bound(self._host.elapsed())

    def now(self) -> int:
        """Return microseconds since 1970: the host's time if it can be, never before ``known``."""
        host, elapsed = self._host.now(), self._host.elapsed()
        follows = host <= self._bound(elapsed)
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
