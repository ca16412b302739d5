"""What becomes of an error that nobody expected: its kind and place are told, never its text.

The text of an error, and the variables beside it, may hold what a caller sent.
"""

import asyncio
import logging
import secrets
import sys
import threading
from traceback import walk_tb

import structlog

from keyhouse.base.errors import Broken

__all__ = ["Unexpected", "install_last_resort", "place_of"]


class Unexpected(Broken):
    """A defect: an error that no code foresaw."""

    code = "unexpected"

    @classmethod
    def of(cls, error: BaseException) -> "Unexpected":
        """Return what may be told of ``error``: its type, where it was met, and an id."""
        kind = type(error).__qualname__
        return cls(
            f"Keyhouse failed: {kind} at {place_of(error)}, id {secrets.token_hex(4)}",
            hint="this is a defect: report this line",
        )


def place_of(error: BaseException) -> str:
    """Return the module and line of ours that ``error`` came through last."""
    place = "an unknown place"
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0].startswith("keyhouse"):
            place = f"{module}:{line}"
    return place


def install_last_resort() -> None:
    """Send what Python and its libraries would print by themselves to the log, without texts."""
    sys.unraisablehook = lambda found: _log(found.exc_value)
    threading.excepthook = lambda found: _log(found.exc_value)
    # The loop's own message is left out too: it shows the arguments of callbacks.
    asyncio.get_running_loop().set_exception_handler(lambda _, found: _log(found.get("exception")))
    logging.basicConfig(handlers=[_Passing()], force=True)


def _log(error: BaseException | None) -> None:
    fields = {"error": type(error).__qualname__, "place": place_of(error)} if error else {}
    structlog.get_logger("keyhouse").error("an error was not handled", **fields)


class _Passing(logging.Handler):
    """Tells that a library logged something, and where its code says what."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            structlog.get_logger("keyhouse").warning(
                "a library logged", logger=record.name, place=f"{record.module}:{record.lineno}"
            )
