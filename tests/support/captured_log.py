"""The log entries of this process as values."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keyhouse.base.log import log


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Yield a growing list of all log entries, of every level.

    Each entry has ``event``, ``log_level`` and further fields.
    """
    entries: list[dict[str, Any]] = []
    before = log.sink, log.least
    log.least = "debug"
    log.sink = lambda level, event, fields: entries.append(
        {"event": event, "log_level": level, **fields}
    )
    try:
        yield entries
    finally:
        log.sink, log.least = before
