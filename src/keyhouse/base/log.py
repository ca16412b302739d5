"""The log: events with fields, which go to where the process said at its start."""

from collections.abc import Callable
from typing import Final

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def _nowhere(_level: str, _event: str, _fields: dict[str, object]) -> None:
    """Drop the entry: only a process that serves has a log."""


class Log:
    """Gives entries of the level ``least`` and above to ``sink``: level, event, fields.

    An event is a fixed text; what varies is in the fields. No field is named ``event``, ``level``
    or ``timestamp``.
    """

    def __init__(self) -> None:
        self.sink: Callable[[str, str, dict[str, object]], None] = _nowhere
        self.least = "info"

    def debug(self, event: str, **fields: object) -> None:
        """Log what helps to find a mistake."""
        self._log("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what happened as it should."""
        self._log("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what wants to be looked at."""
        self._log("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what failed."""
        self._log("error", event, fields)

    def tells(self, level: str) -> bool:
        """Tell whether entries of ``level`` go anywhere."""
        return _LEVELS[level] >= _LEVELS[self.least]

    def _log(self, level: str, event: str, fields: dict[str, object]) -> None:
        if self.tells(level):
            self.sink(level, event, fields)


log: Final = Log()
"""That of this process."""
