"""The program that replaces this process.

The executed file and its arguments are:

=====================  ==========================  ==========================================
on the command line    ``Argv`` of the manifest    started
=====================  ==========================  ==========================================
PROGRAM ARGS...        not empty                   PROGRAM, with the arguments of ``Argv``
PROGRAM ARGS...        empty                       PROGRAM, with PROGRAM ARGS...
nothing                not empty                   ``Argv[0]``, with the arguments of ``Argv``
nothing                empty                       ``./marble``
=====================  ==========================  ==========================================

The command line comes with the image or its start, and ``Argv`` comes with the manifest. So the
image decides the program. A manifest with ``Argv`` decides the arguments. Source:
``docs/reference/launcher.md``.
"""

import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from keyhouse.base.process.exec_error import exec_failure
from keyhouse.base.secret import Secret
from keyhouse.launcher.errors import LaunchRefusedError
from keyhouse.launcher.parameters import Delivered

_DEFAULT: Final = (b"./marble",)
# Python ignores these two signals from its start, and the program would inherit that.
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Program(msgspec.Struct, frozen=True):
    """The workload's program: its file, arguments and environment, for ``exec``.

    ``files`` are contents by path, written before the start of a supervised program.
    """

    file: bytes  # without a slash, ``exec`` searches the PATH of ``env``
    argv: tuple[bytes, ...]
    env: Mapping[bytes, Secret]
    files: Mapping[str, Secret] = {}


def require_program(words: Sequence[bytes]) -> None:
    """Raise ``LaunchRefusedError`` if the program is missing, before an activation is counted.

    ``words`` are the program and its arguments. A name without a slash is not checked, because the
    manifest may set the PATH for its search.
    """
    if words and b"/" in words[0] and not os.path.exists(words[0]):  # noqa: PTH110 it is bytes
        missing = FileNotFoundError(errno.ENOENT, "")
        message, hint = exec_failure(missing, words[0], words, {})
        raise LaunchRefusedError(message, hint=hint)


def program_of(
    words: Sequence[bytes], environment: Mapping[bytes, bytes], delivered: Delivered
) -> Program:
    """Return the program for the ``words`` of the command line and the delivered parameters.

    ``environment`` is the environment of the launcher. A delivered variable replaces the variable
    of the same name; all further variables stay. Raises ``LaunchRefusedError`` for a program
    without a name.
    """
    if words and not words[0]:
        raise LaunchRefusedError("the program's name is empty", hint="name a program after --")
    argv = tuple(argument.encode("utf-8") for argument in delivered.argv)
    argv = argv or tuple(words) or _DEFAULT
    env = {name: Secret(value) for name, value in environment.items()}
    env |= {name.encode("utf-8"): value for name, value in delivered.env.items()}
    return Program(words[0] if words else argv[0], argv, env)


def start(program: Program, end_if_stopped: Callable[[], None] = lambda: None) -> NoReturn:
    """Execute ``program`` with the same process id, standard streams and original signal actions.

    ``exec`` closes every file that the launcher opened. ``end_if_stopped`` is called last, and its
    exception keeps the program from starting. Raises ``LaunchRefusedError`` if the program is
    missing or cannot be started.
    """
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    env = {name: value.reveal() for name, value in program.env.items()}
    try:
        end_if_stopped()
        os.execvpe(program.file, program.argv, env)  # noqa: S606 a program is what is to be started
    except OSError as error:
        message, hint = exec_failure(error, program.file, program.argv, env)
        if program.argv == _DEFAULT and isinstance(error, FileNotFoundError):
            message = f"no program was named, and there is no {os.fsdecode(program.file)}"
            hint = "name the program: -- PROGRAM, or Argv in the manifest"
        raise LaunchRefusedError(message, hint=hint) from None
