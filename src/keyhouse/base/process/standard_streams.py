"""Standard error that never delays a request.

The host reads the log. If the reader ends or the disk is full, the log is lost, but no answer to a
client may be lost.
"""

import io
import os
from contextlib import suppress

_DESCRIPTOR = 2  # POSIX: standard error


class StandardError(io.TextIOBase):
    """An unbuffered stream to descriptor 2. Drops text after a failure of the stream."""

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
