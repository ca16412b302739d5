"""What is being done, on a terminal, while it takes long. Nothing of it stays."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size

from keyhouse.base.printable import printable

__all__ = ["working"]


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show ``what`` on standard error, if that is a terminal, until the block is done."""
    if not sys.stderr.isatty():
        yield
        return
    # Cut, for what is wrapped could not be taken back.
    shown = f"{printable(what)} ..."[: max(get_terminal_size().columns - 1, 0)]
    sys.stderr.write(shown)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r" + " " * len(shown) + "\r")
        sys.stderr.flush()
