"""Structured logs: text on a terminal, otherwise one JSON object per line.

The log shows no traceback and escapes control characters. So a logged value cannot forge a line or
control a terminal. ``Pace`` limits entries about anonymous clients: they cannot fill a disk.
"""

import json
import os
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from keyhouse.base.log import StandardError, log
from keyhouse.base.printable import printable

_BRIGHT: Final = "\33[1m"
_DIM: Final = "\33[2m"
_CYAN: Final = "\33[36m"
_MAGENTA: Final = "\33[35m"
_GREEN: Final = "\33[32m"
_YELLOW: Final = "\33[33m"
_RED: Final = "\33[31m"
_OF_LEVELS: Final = {"debug": _GREEN, "info": _GREEN, "warning": _YELLOW, "error": _RED}

_LEVEL_WIDTH: Final = 9  # columns: "warning" and two spaces
_EVENT_WIDTH: Final = 30  # columns, chosen
_QUOTED: Final = frozenset(" \t=\r\n\"'")


def configure_logs(level: str, form: str, replica: int = 0) -> None:
    """Send log entries from ``level`` on to standard error, in the ``form`` text, json or auto.

    ``replica``: the number of this process among the replicas on this machine, which each entry
    states; 0 without replicas.
    Warnings of libraries, for example about unknown certificates, are suppressed: they are not
    structured.
    """
    warnings.simplefilter("ignore")
    stream = StandardError()
    is_text = form == "text" or (form == "auto" and stream.isatty())
    has_colours = stream.isatty() and not os.environ.get("NO_COLOR")
    own: dict[str, object] = {"replica": replica} if replica else {}

    def write(level: str, event: str, fields: dict[str, object]) -> None:
        safe = {name: _safe(value) for name, value in (own | fields).items()}
        now = datetime.now(UTC).replace(tzinfo=None).isoformat() + "Z"
        line = (
            _text(now, level, printable(event), safe, has_colours=has_colours)
            if is_text
            else _object(now, level, printable(event), safe)
        )
        stream.write(line + "\n")

    log.sink, log.least = write, level


def _safe(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


def _object(now: str, level: str, event: str, fields: dict[str, object]) -> str:
    return json.dumps(fields | {"event": event, "level": level, "timestamp": now}, default=repr)


def _text(now: str, level: str, event: str, fields: dict[str, object], *, has_colours: bool) -> str:
    def styled(style: str, text: str) -> str:
        return f"{style}{text}\33[0m" if has_colours else text

    head = (
        styled(_DIM, now),
        f"[{styled(_OF_LEVELS[level] + _BRIGHT, level.ljust(_LEVEL_WIDTH))}]",
        styled(_BRIGHT, event.ljust(_EVENT_WIDTH)),
    )
    tail = (
        f"{styled(_CYAN, name)}={styled(_MAGENTA, _value(fields[name]))}" for name in sorted(fields)
    )
    return " ".join((*head, *tail)).rstrip(" ")


def _value(value: object) -> str:
    if isinstance(value, str) and _QUOTED.isdisjoint(value):
        return value
    return repr(value)


A_SECOND: Final = 20
"""Logged events of a kind per second. Further events are only counted."""


class Pace:
    """Admits ``A_SECOND`` events per second to the log of the process.

    Use on the event loop's thread only. ``clock`` returns seconds, and must never stand still. The
    security time is not suitable: this time stands still while the host's clock is behind the
    journal, and then nothing would be logged.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._logged = 0
        self._suppressed = 0

    def finished(self) -> int:
        """Return the number of suppressed events in the last second, and begin the next second.

        Before the end of a second, return 0.
        """
        present = self._clock()
        if present - self._began < 1:
            return 0
        suppressed = self._suppressed
        self._began, self._logged, self._suppressed = present, 0, 0
        return suppressed

    def admits(self) -> bool:
        """Count an event. Return whether to log it."""
        if self._logged >= A_SECOND:
            self._suppressed += 1
            return False
        self._logged += 1
        return True
