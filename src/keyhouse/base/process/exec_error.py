"""Explains why a program could not be executed, without values of environment variables."""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from keyhouse.base.printable import os_reason

_KIB: Final = 32 * os.sysconf("SC_PAGE_SIZE") // 1024  # for each; MAX_ARG_STRLEN in execve(2)
_LONGEST_SHOWN: Final = 200  # characters, chosen: the path remains on two lines of a terminal


class ExecFailure(NamedTuple):
    """The message and the hint of an error about a program that could not be executed."""

    message: str
    hint: str


def exec_failure(
    error: OSError, file: bytes, argv: Sequence[bytes], env: Mapping[bytes, bytes]
) -> ExecFailure:
    """Explain why ``execve`` of ``file`` failed: the cause, and a hint for the user.

    ``argv`` and ``env`` are the arguments of the call. If they are too long for the system, the
    message names the longest argument or variable.
    """
    if error.errno == errno.E2BIG:
        what, size = _longest(argv, env)
        problem = f"arguments and variables are too long; the longest is {what} with {size} bytes"
        hint = f"pass long values in files: each, with its name, must be shorter than {_KIB} KiB"
    else:
        problem = os_reason(error)
        hint = "pass the path of the program, and check that the file exists and is executable"
    return ExecFailure(f"the program {_name_text(file)} cannot be started: {problem}", hint)


def _longest(argv: Sequence[bytes], env: Mapping[bytes, bytes]) -> tuple[str, int]:
    sizes = {f"argument {number}": len(text) for number, text in enumerate(argv)}
    sizes |= {f"the variable {_name_text(name)}": len(name + b"=" + env[name]) for name in env}
    return max(sizes.items(), key=lambda item: item[1])


def _name_text(name: bytes) -> str:
    return ascii(name.decode("utf-8", "backslashreplace")[:_LONGEST_SHOWN])
