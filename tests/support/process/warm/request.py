"""What a warm interpreter is asked for; imports little, as each command of a shell loads it."""

import json
import os
import socket

TYPE_CHECKING = False  # typing takes as long to import as all of this
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["may_be_warm", "send_request"]

# Variables that only our code reads when it runs, or a library that it loads only then. Any other
# may shape an interpreter or a library when it is loaded.
_PLAIN = frozenset(
    {
        *("HOME", "NO_COLOR", "OE_SIMULATION", "SOFTHSM2_CONF", "TERM", "TMPDIR"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
    }
)
_PLAIN_PREFIXES = ("KEYHOUSE_", "EDG_")
_MOST = 5000  # characters, each of which JSON may write in six: half of the longest request


def may_be_warm(arguments: "Sequence[str]", environment: "Mapping[str, str]") -> bool:
    """Tell whether a warm interpreter becomes the process that one of its own would."""
    plain = all(name in _PLAIN or name.startswith(_PLAIN_PREFIXES) for name in environment)
    size = sum(map(len, [*arguments, *environment, *environment.values()]))
    return plain and size < _MOST


def send_request(
    control: socket.socket,
    arguments: "Sequence[str]",
    environment: "Mapping[str, str]",
    folder: str,
    streams: tuple[int, int, int],
) -> int:
    """Ask for a process; return the descriptor from which its id comes, and then its exit code.

    The first of ``arguments`` is the program.
    """
    request = {"arguments": [*arguments], "environment": {**environment}, "folder": folder}
    ends, told = os.pipe()
    try:
        socket.send_fds(control, [json.dumps(request).encode()], [*streams, told])
    finally:
        os.close(told)
    return ends
