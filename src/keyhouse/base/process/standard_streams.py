"""Standard streams: standard error that delays no request, and replacements for closed streams.

The log's reader belongs to the host. If it is gone or the disk is full, the log is lost, and no
answer must be.
"""

import io
import os
import sys
from contextlib import suppress

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


def stand_in_streams() -> None:
    """Open the standard streams that a command was started without.

    Standard input is at its end, and standard error is discarded. Writing to standard output fails,
    as on a full disk: data must not look delivered.
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
    """Let ``descriptor``, which is not open, be the null device, also for what is executed."""
    handle = os.open(os.devnull, mode)
    if handle == descriptor:
        os.set_inheritable(handle, True)  # noqa: FBT003 the standard library's way
    else:
        os.dup2(handle, descriptor)
        os.close(handle)
