"""Standard error as the coordinator writes to it: nothing that becomes of it stops a request.

Whoever reads the log belongs to the host. A reader that has gone or a full disk loses the log and
must not lose an answer.
"""

import io
import os
from contextlib import suppress

__all__ = ["StandardError", "open_standard_streams", "write_error"]

_DESCRIPTOR = 2


class StandardError(io.TextIOBase):
    """A stream to descriptor 2 without a buffer; what cannot be written is dropped."""

    def write(self, text: str) -> int:
        """Write ``text`` in one call of the system. Never raises for the stream's sake."""
        with suppress(OSError):
            os.write(_DESCRIPTOR, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def isatty(self) -> bool:
        """Tell whether a terminal shows it."""
        return os.isatty(_DESCRIPTOR)


def write_error(text: str) -> None:
    """Write ``text`` to standard error."""
    StandardError().write(text)


def open_standard_streams() -> None:
    """Make sure that descriptors 0 to 2 are open, for this process and what it executes.

    Otherwise the next file would get one of them, and a library's message would go into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= _DESCRIPTOR:
        os.set_inheritable(handle, True)  # noqa: FBT003 the standard library's way
    os.close(handle)
