"""Processes of the supervisor: start, reap, and the signals in between.

Signals are blocked in the supervisor, which waits for them. A child gets the mask and the actions
with which the launcher was started. When the supervisor ends in any way, the kernel sends SIGTERM
to the child. The signal is not SIGKILL: a killed server such as nginx leaves its worker processes.

Gramine shares no tmpfs between processes: a child does not see the files that its parent has
written there. Such a child writes its own copies, with the contents of the program's files.
"""

import ctypes
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from keyhouse.base.process.exec_error import exec_failure
from keyhouse.base.secret import Secret
from keyhouse.launcher.errors import LaunchRefusedError
from keyhouse.launcher.files import write_files
from keyhouse.launcher.program import Program

PASSED_ON: Final = frozenset(
    {
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
        *(signal.SIGALRM, signal.SIGTERM, signal.SIGCONT, signal.SIGWINCH),
    }
)
WAKE: Final = signal.SIGRTMIN
AWAITED: Final = PASSED_ON | {signal.SIGCHLD, WAKE}

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER: Final = 36
_SI_KERNEL: Final = 0x80  # asm-generic/siginfo.h
_NOT_STARTED: Final = 127  # as a shell's
# The first byte in the pipe from a child: whether the child has written copies of files. The
# message and the hint of an error may follow, with this separator.
_SHARED, _COPIED = b"0", b"1"
_SEPARATOR: Final = "\0"


class StartedChild(NamedTuple):
    """A child that executes its program. ``has_copies``: it does not see its parent's files."""

    process: int
    has_copies: bool


class EndedChild(NamedTuple):
    """A child that has ended. ``code``: its exit code, or the negative number of a signal."""

    process: int
    code: int


class Processes:
    """Starts and reaps the children of this process."""

    def __init__(self) -> None:
        """Block the awaited signals, and become the parent of orphans."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def start(self, program: Program, *, with_input: bool = True) -> StartedChild:
        """Start ``program`` and return its process, after its ``exec``.

        ``with_input``: the program has the standard input of this process; otherwise empty input.
        Raises ``LaunchRefusedError``.
        """
        parent = os.getpid()
        written = _visible(program.files)
        reading, writing = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            os.close(reading)
            os.close(writing)
            raise _refusal(error, program) from None
        if child == 0:
            self._be(program, written, parent, writing, with_input=with_input)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            report = pipe.read()
        if failure := report[1:].decode():
            os.waitpid(child, 0)
            message, hint = failure.split(_SEPARATOR)
            raise LaunchRefusedError(message, hint=hint)
        return StartedChild(child, report == _COPIED)

    def _be(
        self,
        program: Program,
        written: Mapping[str, Secret],
        parent: int,
        writing: int,
        *,
        with_input: bool,
    ) -> NoReturn:
        """Execute ``program`` in this child of the process ``parent``, which sees ``written``.

        If the execution fails, write the error to the descriptor ``writing``. ``with_input``: as in
        ``start``.
        """
        try:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:  # the parent has ended already
                os._exit(_NOT_STARTED)
            for number in (*PASSED_ON, signal.SIGPIPE, signal.SIGXFSZ):
                # Python ignores the last two from its start. Other ignored signals stay ignored.
                ignored = signal.getsignal(number) is signal.SIG_IGN
                if not ignored or number not in PASSED_ON:
                    signal.signal(number, signal.SIG_DFL)
            if not with_input:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            seen = _visible(written)
            missing = {path: written[path] for path in written.keys() - seen.keys()}
            os.write(writing, _COPIED if missing else _SHARED)
            write_files(missing)
            env = {name: value.reveal() for name, value in program.env.items()}
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            os.execvpe(program.file, program.argv, env)  # noqa: S606 a program is what is to be started
        except OSError as error:
            _report(writing, _refusal(error, program))
        except LaunchRefusedError as refused:
            _report(writing, refused)
        finally:
            os._exit(_NOT_STARTED)

    @staticmethod
    def wait(seconds: float | None) -> signal.struct_siginfo | None:
        """Return the next awaited signal, or None after ``seconds``.

        With None for ``seconds``, the wait has no limit.
        """
        if seconds is None:
            return signal.sigwaitinfo(AWAITED)
        return signal.sigtimedwait(AWAITED, max(0.0, seconds))

    @staticmethod
    def reap() -> Iterator[EndedChild]:
        """Yield the ended children and adopted orphans, and release their process ids."""
        with suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    return
                yield EndedChild(process, os.waitstatus_to_exitcode(status))


def send(process: int, number: int) -> None:
    """Send the signal ``number`` to the child with the id ``process``, which may have ended."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def reached_already(received: signal.struct_siginfo, process: int) -> bool:
    """Return whether a terminal has sent the signal ``received`` to ``process``, too.

    The kernel sends the signals of a terminal to each process of the group.
    """
    if received.si_code != _SI_KERNEL:
        return False
    with suppress(ProcessLookupError):
        return os.getpgid(process) == os.getpgrp()
    return False


def _visible(files: Mapping[str, Secret]) -> dict[str, Secret]:
    """Return the ``files`` whose paths exist for this process."""
    return {path: content for path, content in files.items() if os.path.lexists(path)}


def _report(writing: int, refused: LaunchRefusedError) -> None:
    os.write(writing, f"{refused.message}{_SEPARATOR}{refused.hint}".encode())


def _refusal(error: OSError, program: Program) -> LaunchRefusedError:
    env = {name: value.reveal() for name, value in program.env.items()}
    message, hint = exec_failure(error, program.file, program.argv, env)
    return LaunchRefusedError(message, hint=hint)
