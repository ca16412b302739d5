"""Defer the signals that end `keyhouse run` while secrets are written to files.

A Python handler can run between any two steps of the code. One such place is after the creation of
a file, and before the launcher has recorded its name. An exception of the handler there would leave
the file behind. So during the writes the handlers only record the signal. The launcher checks this
record at points where every written file is recorded. Blocking the signals in the thread would not
be enough: a library may run other threads, and each of them may receive the signal.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

_SHELL_BASE: Final = 128
"""The base of a shell's exit code after a signal: this number plus the number of the signal."""

_STOPS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def end_on_sigterm() -> None:
    """End the process on SIGTERM, as the default action does, even as process 1.

    Process 1 ignores SIGTERM without a handler. An ignored signal stays ignored. ``exec`` restores
    the default action for the program.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: _end(number))


@contextmanager
def deferred_stops() -> Iterator[Callable[[], None]]:
    """Only record signals that would end this process, until the context ends.

    The context yields a function. The function ends the process by ``SystemExit`` if such a signal
    was recorded. An ignored signal stays ignored.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    before = {number: each for number, each in before.items() if each is not signal.SIG_IGN}

    def end_if_stopped() -> None:
        if received:
            _end(received[0])

    try:
        for number in before:
            signal.signal(number, lambda number, _: received.append(number))
        yield end_if_stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int) -> NoReturn:
    sys.exit(_SHELL_BASE + number)
