"""What the launcher tells on standard error: lines of text, or one JSON object on a line."""

import json
from datetime import UTC, datetime

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.printable import printable
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.standard_streams import write_error

__all__ = ["Report"]


class Report:
    """Progress, warnings and the error at the end. It never gets anything that was delivered."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def progress(self, text: str) -> None:
        """Tell what is done."""
        self._line("info", text)

    def warning(self, text: str) -> None:
        """Tell what an operator should change."""
        self._line("warning", text)

    def error(self, error: KeyhouseError) -> None:
        """Tell why the program does not start."""
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
            write_error(f"keyhouse run: {mark}{printable(text)}\n")


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
