"""Runs the command that was typed, and says what the parser has to say."""

import os
import sys

from keyhouse.base.printable import os_reason
from keyhouse.base.process.error_text import error_text
from keyhouse.base.process.left_out import leave_out
from keyhouse.base.process.standard_streams import stand_in_streams, write_error
from keyhouse.cli.command_table import app_of
from keyhouse.cli.output.talk import REFUSED, show_error
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["run"]


def run() -> None:
    """Run the command that was typed and end the process; no traceback is ever shown."""
    stand_in_streams()
    leave_out("click", "pygments")
    try:
        try:
            _run_typed()
        finally:
            sys.stdout.flush()
    except OSError as error:
        # What could not be written is still in the buffer: Python would try again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        write_error(f"error: the output cannot be written: {os_reason(error)}\n")
    except Exception as error:  # noqa: BLE001 the last resort, which tells no text of the error
        from keyhouse.base.process.last_resort import Unexpected

        write_error(error_text(Unexpected.of(error)))
    sys.exit(REFUSED)


def _run_typed() -> None:
    """Run it. With ``--json`` what the parser refuses is one object, too."""
    app, in_json = app_of(sys.argv[1:]), "--json" in sys.argv
    if not in_json:
        app(prog_name="keyhouse")
    try:
        code = app(prog_name="keyhouse", standalone_mode=False)
    except Exception as error:
        said, ends_with = getattr(error, "format_message", None), getattr(error, "exit_code", None)
        if said is None or ends_with is None:
            raise
        message = str(said()).rstrip(".")
        show_error(WrongUsage(message[:1].lower() + message[1:]), as_json=True)
        sys.exit(ends_with)
    sys.exit(code if isinstance(code, int) else 0)
