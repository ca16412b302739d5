"""Passwords and PINs: from a file, from standard input, or asked for on a terminal."""

import getpass
import sys
from pathlib import Path

from keyhouse.base.secret import Secret
from keyhouse.cli.output.talk import read_file
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["password_for"]


def password_for(what: str, file: Path | None) -> Secret | None:
    """Return the first line of ``file``; without one, what is typed on the terminal.

    None: nothing was typed, or there is nobody to ask. Raises ``FileUnreadable``, and
    ``WrongUsage`` for an empty file or what is typed in no UTF-8.
    """
    if file is not None:
        line = read_file(str(file)).partition(b"\n")[0].removesuffix(b"\r")
        if not line:
            raise WrongUsage(f"the file with the {what} has no first line")
        return Secret(line)
    if not sys.stdin.isatty():
        return None
    try:
        typed = getpass.getpass(f"{what}: ", stream=sys.stderr)
    except UnicodeDecodeError:
        raise WrongUsage(
            f"the {what} is not UTF-8", hint="type it again, or put it in a file"
        ) from None
    return Secret(typed.encode()) if typed else None
