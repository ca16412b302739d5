"""Security time as dates and as text. Times are microseconds since 1970-01-01T00:00:00Z."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_SECOND: Final = 1_000_000  # microseconds


def moment(time: int) -> datetime:
    """Return ``time``, in microseconds since 1970, as a date with a time, UTC."""
    return _EPOCH + timedelta(microseconds=time)


def timestamp(time: int) -> str:
    """Return ``time``, in microseconds since 1970, as ``2026-01-31T23:59:59.123Z``."""
    second, rest = divmod(time, _SECOND)
    return f"{_to_the_second(second)}.{rest // 1000:03}Z"


@lru_cache(maxsize=2)  # thousands of changes may happen within a second
def _to_the_second(second: int) -> str:
    return moment(second * _SECOND).replace(tzinfo=None).isoformat(timespec="seconds")
