"""Structured logging: events with fields. The process configures the sink at its start.

The usual sink is standard error. The host reads the log. If the reader ends or the disk is full,
the log is lost, but no answer to a client is lost or delayed.
"""

import io
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def _nowhere(_level: str, _event: str, _fields: dict[str, object]) -> None:
    """Drop the log entry. This is the sink until the process configures a sink."""


class Log:
    """Passes each log entry of the level ``least`` or above to ``sink(level, event, fields)``.

    The event of an entry is a fixed text; the values are in the fields. No field may have the name
    ``event``, ``level`` or ``timestamp``, because the sink adds fields with these names.
    """

    def __init__(self) -> None:
        self.sink: Callable[[str, str, dict[str, object]], None] = _nowhere
        self.least = "info"

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail for the search for defects."""
        self._log("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a normal event of operation."""
        self._log("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log an event for the attention of an operator."""
        self._log("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log a failure that the operator has to fix."""
        self._log("error", event, fields)

    def accepts(self, level: str) -> bool:
        """Return whether the sink receives log entries of ``level``."""
        return _LEVELS[level] >= _LEVELS[self.least]

    def _log(self, level: str, event: str, fields: dict[str, object]) -> None:
        if self.accepts(level):
            self.sink(level, event, fields)


log: Final = Log()
"""The log of this process."""


_DESCRIPTOR = 2  # POSIX: standard error


class StandardError(io.TextIOBase):
    """An unbuffered stream to descriptor 2. Drops text after a failure of the stream."""

    def write(self, text: str) -> int:
        """Write ``text`` in one system call. A failure of the stream raises no error."""
        with suppress(OSError):
            os.write(_DESCRIPTOR, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return os.isatty(_DESCRIPTOR)


def write_error(text: str) -> None:
    """Write ``text`` to standard error."""
    StandardError().write(text)
