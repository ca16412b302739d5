"""Unexpected errors: their kind and place are reported, never their text.

The text of an error, and the variables in its traceback, may hold what a caller sent.
"""

import asyncio
import logging
import secrets
import sys
import threading
from traceback import walk_tb

from keyhouse.base.errors import BrokenError
from keyhouse.base.log import log


class UnexpectedError(BrokenError):
    """A defect: an error that no code foresaw."""

    code = "unexpected"

    @classmethod
    def of(cls, error: BaseException) -> "UnexpectedError":
        """Return what may be reported of ``error``: its type, its place, and an id."""
        kind = type(error).__qualname__
        return cls(
            f"Keyhouse failed: {kind} at {place_of(error)}, id {secrets.token_hex(4)}",
            hint="this is a defect: report this line",
        )


def place_of(error: BaseException) -> str:
    """Return the last module and line of Keyhouse that ``error`` passed through."""
    place = "an unknown place"
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0].startswith("keyhouse"):
            place = f"{module}:{line}"
    return place


def install_last_resort() -> None:
    """Log, without texts, the errors that Python and its libraries would print themselves."""
    sys.unraisablehook = lambda found: _log(found.exc_value)
    threading.excepthook = lambda found: _log(found.exc_value)
    # The loop's own message is left out too: it shows the arguments of callbacks.
    asyncio.get_running_loop().set_exception_handler(lambda _, found: _log(found.get("exception")))
    logging.basicConfig(handlers=[_Passing()], force=True)


def _log(error: BaseException | None) -> None:
    fields = {"error": type(error).__qualname__, "place": place_of(error)} if error else {}
    log.error("an error was not handled", **fields)


class _Passing(logging.Handler):
    """Logs that a library logged something, and at which line of its code."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            log.warning(
                "a library logged", logger=record.name, place=f"{record.module}:{record.lineno}"
            )
