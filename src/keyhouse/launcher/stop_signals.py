"""Signals that end `keyhouse run`, deferred while secrets come into files.

A handler of Python runs between any two steps of the code: after a file has got its name, say, and
before the launcher has noted that name. An exception of the handler at that place would leave the
file behind. So, while files are written, the handlers only record the signal, and the launcher asks
for the record where every written file is noted. Blocking the signals in the thread would not do: a
library may run other threads, and any of them may receive the signal.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

_SHELL_BASE: Final = 128
"""A shell reports a process that a signal ended by this number plus that of the signal."""

_STOPS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def end_on_sigterm() -> None:
    """End on SIGTERM as other programs do, also as process 1, where it would have no effect.

    A signal that was ignored stays ignored. ``exec`` gives the program the default action again.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: _end(number))


@contextmanager
def deferred_stops() -> Iterator[Callable[[], None]]:
    """Record signals that end this process, until the context ends.

    The context gets a function: it ends the process, by ``SystemExit``, if such a signal came. A
    signal that was ignored stays ignored.
    """
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    before = {number: each for number, each in before.items() if each is not signal.SIG_IGN}

    def end_if_stopped() -> None:
        if came:
            _end(came[0])

    try:
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
        yield end_if_stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int) -> NoReturn:
    sys.exit(_SHELL_BASE + number)
