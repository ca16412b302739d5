"""How this command was called: the words that call another one the same way."""

import shutil
import sys
from pathlib import Path

__all__ = ["called_as"]

_NAME = "keyhouse"


def called_as() -> tuple[str, ...]:
    """Return the words before a subcommand, for a shell in any directory.

    ``keyhouse`` where the shell finds this very program by that name, else the place of it: in a
    clone it lies in an environment that is not on PATH.
    """
    called, found = Path(sys.argv[0]), shutil.which(_NAME)
    if called.name == "__main__.py":
        return (sys.executable, "-m", "keyhouse.cli")
    if not called.is_file() or (found is not None and called.samefile(found)):
        return (_NAME,)
    return (str(called.absolute()),)
