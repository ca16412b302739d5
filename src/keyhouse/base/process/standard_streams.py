"""Standard error that never delays a request, and replacements for closed standard streams.

The host reads the log. If the reader ends or the disk is full, the log is lost, but no answer to a
client may be lost.
"""

import io
import os
import sys
from contextlib import suppress

_DESCRIPTOR = 2


class StandardError(io.TextIOBase):
    """An unbuffered stream to descriptor 2. It drops text that cannot be written."""

    def write(self, text: str) -> int:
        """Write ``text`` in one system call. A failure of the stream raises no error."""
        with suppress(OSError):
            os.write(_DESCRIPTOR, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return os.isatty(_DESCRIPTOR)


def write_error(text: str) -> None:
    """Write ``text`` to standard error."""
    StandardError().write(text)


def stand_in_streams() -> None:
    """Replace the standard streams that are closed at the start of a command.

    Standard input is empty, and standard error is discarded. A write to standard output fails like
    a write to a full disk, so a caller never believes that the data was delivered.
    """
    if sys.stdin is None:
        _null(0, os.O_RDONLY)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 for good
    if sys.stdout is None:
        _null(1, os.O_RDONLY)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _null(2, os.O_WRONLY)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _null(descriptor: int, mode: int) -> None:
    """Open the null device as ``descriptor``, also for programs that this process executes."""
    handle = os.open(os.devnull, mode)
    if handle == descriptor:
        os.set_inheritable(handle, True)  # noqa: FBT003 the standard library's way
    else:
        os.dup2(handle, descriptor)
        os.close(handle)
