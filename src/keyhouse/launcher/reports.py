"""Reports of the launcher to standard error, as text or JSON. They never contain delivered data."""

import json
from datetime import UTC, datetime

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import write_error
from keyhouse.base.log_texts import OF_LAUNCHER
from keyhouse.base.printable import printable
from keyhouse.base.process.error_text import error_text


class ProgressReport:
    """Reports progress, warnings and the final error, as text or JSON, to standard error.

    Delivered data never reach this class.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def progress(self, text: str) -> None:
        """Report a step of the launch."""
        self._line("info", text)

    def warning(self, text: str) -> None:
        """Report a fault that does not stop the launch."""
        self._line("warning", text)

    def error(self, error: KeyhouseError) -> None:
        """Report the error that prevents the start of the program."""
        if self._as_json:
            self._line("error", error.message, hint=error.hint, code=error.code)
        else:
            write_error(error_text(error))

    def _line(self, level: str, text: str, **fields: str) -> None:
        if self._as_json:
            line = {"event": printable(text), "level": level, "timestamp": _now()}
            line |= {name: printable(value) for name, value in fields.items() if value}
            write_error(json.dumps(line) + "\n")
        else:
            mark = "warning: " if level == "warning" else ""
            write_error(f"{OF_LAUNCHER}{mark}{printable(text)}\n")


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
