"""Time as the coordinator trusts it: never backwards, and not a year ahead of what it knows."""

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol

from keyhouse.base.errors import Broken

__all__ = ["Clock", "HostClock", "check_host_time", "moment", "security_time", "timestamp"]

BUILD_TIME: Final = 1_795_219_200_000_000
"""2026-11-21T00:00:00Z: no clock is earlier than the code that reads it. Raised by each release."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_SECOND: Final = 1_000_000  # microseconds
YEAR: Final = 365 * 24 * 3600 * _SECOND


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        ...


class HostClock:
    """The host's clock, which the host may set as it likes."""

    def now(self) -> int:
        """Return the host's time."""
        return time.time_ns() // 1000


def moment(time: int) -> datetime:
    """Return microseconds since 1970 as a date, UTC."""
    return _EPOCH + timedelta(microseconds=time)


def timestamp(time: int) -> str:
    """Return microseconds since 1970 as ``2026-01-31T23:59:59.123Z``."""
    second, rest = divmod(time, _SECOND)
    return f"{_to_the_second(second)}.{rest // 1000:03}Z"


@lru_cache(maxsize=2)  # thousands of changes may come within one second
def _to_the_second(second: int) -> str:
    return moment(second * _SECOND).replace(tzinfo=None).isoformat(timespec="seconds")


def security_time(host: int, newest_journalled: int = 0) -> int:
    """Return the latest of host time, build time and the newest time in the journal."""
    return max(host, BUILD_TIME, newest_journalled)


def check_host_time(host: int, newest_journalled: int) -> None:
    """Refuse a host clock more than a year ahead of the journal.

    Once such a time is journalled it can never be taken back. A deployment that really slept for
    a year says so with ``--confirm-clock``. Source: security rules, "Time".

    Raises:
        Broken: the clock is too far ahead.
    """
    if host > max(newest_journalled, BUILD_TIME) + YEAR:
        raise Broken(
            "the clock of this machine is more than a year ahead of the newest journalled time",
            hint="set the clock; if it is right, start once with --confirm-clock",
        )
