"""The supervisor: the parent of the program, which may be process 1.

The main thread waits for signals, orders and times. It passes signals on, reaps every child, and
ends as the program ends: with its exit code, or 128 and the number of its signal.

A changed program is notified by the rules of the manifest. A restart sends SIGTERM, and SIGKILL
after a limit. A failed command is repeated twice.
"""

import signal
import time
from collections.abc import Callable
from typing import Final

from keyhouse.launcher.program import Program
from keyhouse.launcher.supervise.notifications import Notifications
from keyhouse.launcher.supervise.orders import Changed, Ends, Failed, Order, OrderQueue, Start
from keyhouse.launcher.supervise.processes import (
    PASSED_ON,
    EndedChild,
    Processes,
    reached_already,
    send,
)
from keyhouse.launcher.supervise.reload_command import ReloadCommand
from keyhouse.launcher.supervise.schedule import NEVER

_SHELL_BASE: Final = 128
"""The base of the exit code after a signal: this number plus the number of the signal."""

_STOPS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})


class StoppedError(Exception):
    """A signal ended the launcher before the start of the program. ``code``: the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Supervisor:
    """Runs one program in a child process. ``stop_after``: seconds from SIGTERM to SIGKILL.

    ``orders``: the queue of the agent's orders. ``progress`` and ``warning`` report a text.
    """

    def __init__(
        self,
        processes: Processes,
        orders: OrderQueue,
        notifications: Notifications,
        *,
        stop_after: float,
        progress: Callable[[str], None],
        warning: Callable[[str], None],
    ) -> None:
        self._processes = processes
        self._orders = orders
        self._notifications = notifications
        self._stop_after = stop_after
        self._progress = progress
        self._warning = warning
        self._child = 0  # process id of the program; 0: not started
        self._code: int | None = None  # the exit code of the program
        self._following: Program | None = None  # the program after a restart
        self._has_copies = False  # whether the program has its own copies of the files
        self._stops = False  # whether somebody wants the end of the program
        self._command = ReloadCommand(processes, progress, warning)
        self._kill_at = self._end_at = self._watchdog_at = NEVER
        self._stops_at_end = False

    def run(self) -> int:
        """Run the program until its end. Return its exit code, or 128 and the number of its signal.

        Raises ``KeyhouseError`` if the program cannot start, and ``StoppedError``.
        """
        while self._code is None:
            received = self._processes.wait(self._pause())
            if received is not None and received.si_signo in PASSED_ON:
                self._pass_on(received)
            while (order := self._orders.receive()) is not None:
                self._obey(order)
            for ended in self._processes.reap():
                self._record_end(ended)
            self._act()
        self._notifications.send("STOPPING=1")
        return self._code if self._code >= 0 else _SHELL_BASE - self._code

    def _pause(self) -> float | None:
        """Return the seconds until the next action. None: only a signal leads to an action."""
        due = min(self._kill_at, self._end_at, self._watchdog_at, self._command.due)
        return None if due == NEVER else due - now()

    def _pass_on(self, received: signal.struct_siginfo) -> None:
        number = received.si_signo
        stops = number in _STOPS
        if not self._child and stops:
            raise StoppedError(_SHELL_BASE + number)
        self._stops = self._stops or (stops and number != signal.SIGHUP)
        if self._child and not reached_already(received, self._child):
            send(self._child, number)

    def _obey(self, order: Order) -> None:
        match order:
            case Start(program):
                self._start(program)
                self._notifications.send("READY=1")
                if self._notifications.watchdog is not None:
                    self._watchdog_at = now()
            case Changed():
                self._notify(order)
            case Ends(seconds, stops):
                self._end_at, self._stops_at_end = now() + seconds, stops
            case Failed(error):
                raise error

    def _start(self, program: Program) -> None:
        self._child, has_copies = self._processes.start(program)
        self._following = None
        if has_copies and not self._has_copies:
            self._warning(
                "the program does not see the files of the launcher, so it has copies from its"
                " start: changes reach it only by OnChange.Restart, and renewed certificates never;"
                " write the files to an encrypted mount"
            )
        self._has_copies = has_copies

    def _notify(self, change: Changed) -> None:
        """Notify or restart the program because of ``change``, by the rules of its marble type."""
        rules = change.reload
        if self._following is not None:  # the program is being restarted
            self._following = change.program
        elif rules.restart:
            # A renewal alone never restarts a program.
            if change.restart and not self._stops:
                self._progress("restarting the program, because its parameters have changed")
                self._following = change.program
                self._terminate()
        elif rules.signal:
            send(self._child, getattr(signal, f"SIG{rules.signal}"))
            self._progress(f"the program got SIG{rules.signal}")
        elif rules.command:
            self._command.request(rules.command, change.program, self._child, now())

    def _terminate(self) -> None:
        send(self._child, signal.SIGTERM)
        self._kill_at = now() + self._stop_after

    def _record_end(self, ended: EndedChild) -> None:
        self._command.record_end(ended, now())
        if ended.process != self._child:
            return
        self._kill_at = NEVER
        if self._following is not None and not self._stops:
            self._start(self._following)
        else:
            self._code = ended.code

    def _act(self) -> None:
        """Run the actions that are due, such as SIGKILL to a program that does not end."""
        if now() >= self._kill_at:
            self._kill_at = NEVER
            self._warning(
                f"the program did not end within {self._stop_after:.0f} s of SIGTERM: sending"
                " SIGKILL"
            )
            send(self._child, signal.SIGKILL)
        if now() >= self._end_at and self._child:
            self._end_at = NEVER
            self._certificate_ended()
        if now() >= self._watchdog_at and self._notifications.watchdog is not None:
            self._notifications.send("WATCHDOG=1")
            self._watchdog_at = now() + self._notifications.watchdog
        self._command.act(now())

    def _certificate_ended(self) -> None:
        if not self._stops_at_end:
            self._warning(
                "the certificate has ended: other workloads refuse it; find the cause in the"
                " earlier warnings"
            )
            return
        self._warning("the certificate has ended: stopping the program, by OnEnd of the manifest")
        self._stops = True
        self._terminate()


def now() -> float:
    """Return the elapsed time in seconds. It includes the suspension of the machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
