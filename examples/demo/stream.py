"""Uploads of one user by the SDK, without a pause, until the coordinator process ends."""

import threading
from collections.abc import Callable
from typing import Final

from examples.demo.screen import UnexpectedError
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.client import (
    ClientIdentity,
    Coordinator,
    SecretUpload,
    TrustedCoordinator,
    UnreachableError,
)

__all__ = ["UploadStream"]

_PATIENCE: Final = 60.0  # seconds


class UploadStream:
    """Uploads ``value(0)``, ``value(1)``, ... as ``secret``. Counts acknowledged uploads."""

    def __init__(
        self,
        trusted: TrustedCoordinator,
        user: ClientIdentity,
        secret: str,
        value: Callable[[int], bytes],
    ) -> None:
        self.secret: Final = secret
        self._value = value
        self._coordinator = Coordinator(trusted, user)
        self._acknowledged = 0
        self._error: KeyhouseError | None = None
        self._changed = threading.Condition()
        # A daemon thread does not delay the end of the demo.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start the uploads."""
        self._thread.start()

    def until(self, acknowledged: int) -> None:
        """Wait until the given number of uploads is acknowledged.

        Raises:
            UnexpectedError: the stream ended before, or 60 seconds passed.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._error or self._acknowledged >= acknowledged, _PATIENCE
            )
            if self._error or self._acknowledged < acknowledged:
                raise UnexpectedError(
                    f"uploads of {self.secret} stopped: {self._error or 'too slow'}"
                )

    def broken_off(self) -> int:
        """Wait until the coordinator is unreachable; return the number of acknowledged uploads.

        Raises:
            UnexpectedError: the stream still runs, or ended with a different error.
        """
        self._thread.join(_PATIENCE)
        self._coordinator.close()
        if self._thread.is_alive() or not isinstance(self._error, UnreachableError):
            raise UnexpectedError(f"uploads of {self.secret} ended unexpectedly: {self._error}")
        return self._acknowledged

    def may_be_stored(self, value: bytes, acknowledged: int) -> bool:
        """Return whether ``value`` is of the last acknowledged upload or of the next upload."""
        return value in {self._value(acknowledged - 1), self._value(acknowledged)}

    def _run(self) -> None:
        try:
            while True:
                value = Secret(self._value(self._acknowledged))
                self._coordinator.write_secrets({self.secret: SecretUpload(key=value)})
                with self._changed:
                    self._acknowledged += 1
                    self._changed.notify_all()
        except KeyhouseError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
