"""Runs several coordinators behind the same addresses, as their parent process.

The parent binds the addresses, forks a child for each coordinator, and restarts ended children. The
children inherit the sockets, so no other process can listen there. A free child accepts the next
connection. The parent has one thread, no event loop and no keys. Gramine is refused, because its
enclaves cannot share a socket.
"""

import asyncio
import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from keyhouse.attestation.platforms.gramine import DEV_ATTESTATION
from keyhouse.base.log import log
from keyhouse.base.process.flags import SettingRefusedError
from keyhouse.base.process.hardening import harden
from keyhouse.journal.directory.acquire import acquire, require_no_state
from keyhouse.journal.directory.disk import Disk
from keyhouse.server.logs import configure_logs
from keyhouse.server.net.sockets import bound_socket
from keyhouse.server.process.settings import Replica, Settings

REFUSED: Final = 1
"""The exit code if no replica is left, or if a replica did not stop in order."""

PAUSE: Final = 1.0
"""Seconds until the first restart of a replica. Each further pause is twice as long, at most
``LONGEST_PAUSE``.
"""

LONGEST_PAUSE: Final = 30.0  # seconds, chosen: a repaired database is used again within a minute

SETTLED: Final = 60.0
"""Seconds of life after which the next restart has the first pause again."""

_STOPPING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
# A signal directly after the start ends a child with SIGTERM or code 130.
_IN_ORDER: Final = {0, -signal.SIGTERM, 130}
_AWAITED: Final = _STOPPING | {signal.SIGCHLD}
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


class _Running(NamedTuple):
    number: int
    began: float  # monotonic clock


class _Ended(NamedTuple):
    code: int
    pause: float  # seconds until the restart


def require_several_processes(exists: Callable[[Path], bool] = Path.exists) -> None:
    """Refuse several replicas under Gramine, where processes cannot share a listening socket.

    ``exists`` returns whether a path exists, and so whether Gramine's files exist. Raises
    ``SettingRefusedError``.
    """
    if exists(DEV_ATTESTATION):
        raise SettingRefusedError(
            "under Gramine several replicas cannot share an address: each process is an enclave of"
            " its own",
            hint="leave --replicas out, and start each coordinator with an address of its own",
        )


def supervise(settings: Settings, serve: Callable[[Settings], int]) -> int:
    """Run the replicas of ``settings`` until a signal to stop, or until no replica is left.

    ``serve`` runs a replica in a child process and returns its exit code. Returns 0 if all replicas
    stopped in order. Raises ``KeyhouseError`` if no replica can start.
    """
    require_several_processes()
    configure_logs(settings.log_level, settings.log_format)
    harden()
    folder = settings.data_dir.absolute()
    acquire(folder, Disk()).release()
    require_no_state(folder)
    sockets = [asyncio.run(bound_socket(*at)) for at in (settings.client_addr, settings.mesh_addr)]
    return _Supervisor(settings, sockets, serve).run()


def next_pause(last: float | None, uptime: float) -> float:
    """Return the seconds until the restart of a replica that ran for ``uptime`` seconds.

    ``last``: the previous pause in seconds, or None.
    """
    return PAUSE if last is None or uptime >= SETTLED else min(2 * last, LONGEST_PAUSE)


class _Supervisor:
    def __init__(
        self,
        settings: Settings,
        sockets: Sequence[socket.socket],
        serve: Callable[[Settings], int],
    ) -> None:
        self._settings = settings
        self._sockets = sockets
        self._serve = serve
        self._own_id = os.getpid()
        self._running: dict[int, _Running] = {}  # by process id
        self._ended: dict[int, _Ended] = {}  # the last end of each replica, by number
        self._due: dict[int, float] = {}  # times of pending restarts, by number

    def run(self) -> int:
        # Blocked signals stay pending for sigwait, so no signal is lost between a check and a wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        log.info("starting several replicas", replicas=self._settings.replicas)
        for number in range(1, self._settings.replicas + 1):
            self._start(number)
        while self._running:
            if self._signal() in _STOPPING:
                return self._stop()
            self._reap_children()
            now = time.monotonic()
            for number in [each for each, at in self._due.items() if at <= now]:
                del self._due[number]
                self._start(number)
        log.error("no replica is left")
        return _exit_code(each.code for each in self._ended.values())

    def _signal(self) -> int | None:
        """Return the number of the next signal, or None when the restart of a replica is due."""
        if not self._due:
            return signal.sigwait(_AWAITED)
        left = max(0.0, min(self._due.values()) - time.monotonic())
        received = signal.sigtimedwait(_AWAITED, left)
        return None if received is None else received.si_signo

    def _start(self, number: int) -> None:
        began = time.monotonic()
        try:
            child = os.fork()
        except OSError:  # a limit of processes, for example: a later attempt may succeed
            self._record_end(number, began, REFUSED)
            return
        if child == 0:
            # The child must never continue with code of the parent.
            try:
                os._exit(self._served(number))
            finally:
                os._exit(REFUSED)
        self._running[child] = _Running(number, began)

    def _served(self, number: int) -> int:
        """Run as replica ``number``, in its child process. Return the exit code."""
        end_with_parent(self._own_id)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        return self._serve(self._settings.of_replica(Replica(number, *self._sockets)))

    def _reap_children(self) -> None:
        for child in list(self._running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                number, began = self._running.pop(child)
                self._record_end(number, began, os.waitstatus_to_exitcode(status))

    def _record_end(self, number: int, began: float, code: int) -> None:
        now, last = time.monotonic(), self._ended.get(number)
        pause = next_pause(last.pause if last is not None else None, now - began)
        self._ended[number], self._due[number] = _Ended(code, pause), now + pause
        log.warning("a replica has ended", replica=number, code=code, again_in=pause)

    def _stop(self) -> int:
        """Stop all replicas. Return the exit code after their end."""
        for each in self._sockets:
            each.close()
        for child in self._running:
            os.kill(child, signal.SIGTERM)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in self._running]
        log.info("all replicas have stopped")
        return _exit_code(codes)


def _exit_code(codes: Iterable[int]) -> int:
    return 0 if set(codes) <= _IN_ORDER else REFUSED


def end_with_parent(parent: int) -> None:
    """Request SIGTERM from the kernel for the end of the parent process.

    ``parent``: the process ID of the parent. If the parent has ended before, this process exits.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # the parent has ended already
        os._exit(REFUSED)
