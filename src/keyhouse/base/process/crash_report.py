"""Reports the class and the place of unexpected errors, never their text.

The text of an error and the variables in its traceback may contain the input of a caller.
"""

import asyncio
import logging
import secrets
import sys
import threading
from traceback import walk_tb
from typing import Final

from keyhouse.base.errors import BrokenError
from keyhouse.base.log import log

_LONGEST_NAME: Final = 100  # characters, chosen: no module of Keyhouse has a longer name

_INCOMPLETE: Final = (
    "the installation is incomplete or was changed: install it again; under Gramine a file that"
    ' differs from its measurement is refused, and loader.log_level = "warning" names it'
)


class UnexpectedError(BrokenError):
    """An error that no code expects: a defect of Keyhouse."""

    code = "unexpected"

    @classmethod
    def of(cls, error: BaseException) -> "UnexpectedError":
        """Return a report of ``error`` that contains only its class, its place, and a random id.

        If a module cannot be imported, the report names the module instead of the class.
        """
        problem, hint = type(error).__qualname__, "report this line: it shows a defect of Keyhouse"
        if isinstance(error, ImportError):
            name = (error.name or "of an unknown name")[:_LONGEST_NAME]
            problem = f"the module {name} cannot be loaded"
            hint = _INCOMPLETE
        return cls(
            f"Keyhouse failed: {problem} at {place_of(error)}, id {secrets.token_hex(4)}", hint=hint
        )


def place_of(error: BaseException) -> str:
    """Return ``module:line`` of the innermost Keyhouse code in the traceback of ``error``."""
    place = "an unknown place"
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0].startswith("keyhouse"):
            place = f"{module}:{line}"
    return place


def report_crashes() -> None:
    """Log unhandled errors without their texts. Python and its libraries would print the texts.

    Call this function on the running event loop.
    """
    sys.unraisablehook = lambda found: _log(found.exc_value)
    threading.excepthook = lambda found: _log(found.exc_value)
    # The loop's message shows the arguments of callbacks, so the log drops that message, too.
    asyncio.get_running_loop().set_exception_handler(lambda _, found: _log(found.get("exception")))
    logging.basicConfig(handlers=[_Passing()], force=True)


def _log(error: BaseException | None) -> None:
    fields = {"error": type(error).__qualname__, "place": place_of(error)} if error else {}
    log.error("an error was not handled", **fields)


class _Passing(logging.Handler):
    """Passes a library's warning to our log: the logger's name and the code line, not the text.

    The text of a library may contain the input of a caller.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            log.warning(
                "a library logged", logger=record.name, place=f"{record.module}:{record.lineno}"
            )
