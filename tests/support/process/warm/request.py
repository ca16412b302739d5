"""Requests to a warm interpreter. Each command of a shell loads this module: few imports."""

import json
import os
import socket

TYPE_CHECKING = False  # the import of typing takes as long as all of this module
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["may_be_warm", "send_request"]

# Variables that only our code reads at run time, or a library that our code loads then. Any other
# variable may change the start of an interpreter or a library.
_PLAIN = frozenset(
    {
        *("HOME", "NO_COLOR", "OE_SIMULATION", "SOFTHSM2_CONF", "TERM", "TMPDIR"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
    }
)
_PLAIN_PREFIXES = ("KEYHOUSE_", "EDG_")
_MOST = 5000  # characters; JSON may need six bytes for each: half of the longest request


def may_be_warm(arguments: "Sequence[str]", environment: "Mapping[str, str]") -> bool:
    """Return whether a fork of a warm interpreter equals a process with a new interpreter."""
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
    """Request a process; return the descriptor of its process id and, after its end, exit code.

    The first of ``arguments`` is the program.
    """
    request = {"arguments": [*arguments], "environment": {**environment}, "folder": folder}
    ends, told = os.pipe()
    try:
        socket.send_fds(control, [json.dumps(request).encode()], [*streams, told])
    finally:
        os.close(told)
    return ends
