"""Notifications to systemd: readiness, stop, and the watchdog (sd_notify(3)).

The supervisor is the main process of the unit. So only the supervisor gets the variables of systemd
for such notifications, and the program does not.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

_SOCKET: Final = b"NOTIFY_SOCKET"
_WATCHDOG: Final = b"WATCHDOG_USEC"
_WATCHDOG_PROCESS: Final = b"WATCHDOG_PID"
_SECOND: Final = 1_000_000  # microseconds


def without_notifications(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return ``environment`` without the variables of systemd for its main process."""
    ours = {_SOCKET, _WATCHDOG, _WATCHDOG_PROCESS}
    return {name: value for name, value in environment.items() if name not in ours}


class Notifications:
    """Sends messages to the service manager whose socket ``environment`` names.

    Without a socket in ``environment``, the messages are dropped.
    """

    def __init__(self, environment: Mapping[bytes, bytes]) -> None:
        self._path = environment.get(_SOCKET, b"")
        self.watchdog = _watchdog(environment)

    def send(self, message: str) -> None:
        """Send ``message``, such as ``READY=1``, to the service manager, if there is a manager."""
        if not self._path.startswith((b"/", b"@")):
            return
        path = b"\0" + self._path[1:] if self._path.startswith(b"@") else self._path
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.connect(path)
            sending.send(message.encode("ascii"))


def _watchdog(environment: Mapping[bytes, bytes]) -> float | None:
    """Return the seconds between two messages to the watchdog, half of the limit of the watchdog.

    None: the service manager has no watchdog for this process.
    """
    given = environment.get(_WATCHDOG, b"")
    process = environment.get(_WATCHDOG_PROCESS, b"") or str(os.getpid()).encode("ascii")
    if not given.isdigit() or int(given) == 0 or process != str(os.getpid()).encode("ascii"):
        return None
    return int(given) / _SECOND / 2
