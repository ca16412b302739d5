"""The messages of a lasting call, for use cases that know no protocol."""

from typing import Protocol

from keyhouse.base.errors import KeyhouseError


class Feed(Protocol):
    """The messages of a lasting call after the first message."""

    def push(self, message: bytes) -> None:
        """Send ``message``. A message that still waits for the client is replaced."""

    def end(self, error: KeyhouseError) -> None:
        """End the call with the status of ``error``, after the pending messages."""
