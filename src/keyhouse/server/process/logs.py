"""Structured logs: text on a terminal, one JSON object on a line otherwise.

No traceback shows local variables, and control characters are escaped, so that nothing logged can
forge a line or drive a terminal.
"""

import logging
import os
import warnings
from collections.abc import MutableMapping
from typing import Any, Final, TextIO, cast

import structlog

from keyhouse.base.printable import printable
from keyhouse.base.process.standard_streams import StandardError

__all__ = ["configure_logs"]

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logs(level: str, form: str) -> None:
    """Send the log to standard error in the wanted ``form``: text, json or auto.

    Nothing else goes there: libraries warn of unknown certificates in words of their own.
    """
    warnings.simplefilter("ignore")
    stream = StandardError()
    text = form == "text" or (form == "auto" and stream.isatty())
    last: list[Any] = (
        [structlog.dev.ConsoleRenderer(colors=_colours(stream), exception_formatter=_plain)]
        if text
        else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _escape,
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, stream)),
        cache_logger_on_first_use=True,
    )


def _escape(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = printable(value)
    event.pop("exc_info", None)  # what went wrong is said in words; tracebacks may hold values
    return event


def _colours(stream: StandardError) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _plain(*_: Any) -> None:
    """Print no traceback."""
