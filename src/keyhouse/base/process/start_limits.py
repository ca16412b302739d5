"""Why a program did not start: what the system does not take, named without its value."""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Final

from keyhouse.base.errors import Refused
from keyhouse.base.os_reason import os_reason

__all__ = ["LaunchRefused", "not_started"]

_KIB: Final = 32 * os.sysconf("SC_PAGE_SIZE") // 1024  # for each; MAX_ARG_STRLEN in execve(2)
_LONGEST_SHOWN: Final = 200


class LaunchRefused(Refused):
    """Something that the launcher was given, or was told to do, cannot be."""

    code = "launch-refused"


def not_started(
    error: OSError, file: bytes, argv: Sequence[bytes], env: Mapping[bytes, bytes]
) -> LaunchRefused:
    """Return what ``error`` of starting ``file`` means; of variables it tells the names alone."""
    if error.errno == errno.E2BIG:
        what, size = _longest(argv, env)
        problem = f"arguments and variables are too long; the longest is {what} with {size} bytes"
        hint = (
            f"each, with its name, has to be shorter than {_KIB} KiB; files may hold what is longer"
        )
    else:
        problem = os_reason(error)
        hint = "name it with its path, and see that it is there and may be executed"
    return LaunchRefused(f"the program {_shown(file)} cannot be started: {problem}", hint=hint)


def _longest(argv: Sequence[bytes], env: Mapping[bytes, bytes]) -> tuple[str, int]:
    sizes = {f"argument {number}": len(text) for number, text in enumerate(argv)}
    sizes |= {f"the variable {_shown(name)}": len(name + b"=" + env[name]) for name in env}
    return max(sizes.items(), key=lambda item: item[1])


def _shown(name: bytes) -> str:
    return ascii(name.decode("utf-8", "backslashreplace")[:_LONGEST_SHOWN])
