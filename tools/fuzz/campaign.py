"""Runs targets in separate processes, until their limits or the first finding.

A case that ends its process, or takes too long, is a finding too. The quote library can abort a
process, for example. The supervisor reads such a case from shared memory.
"""

import contextlib
import os
import select
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from fuzz.target import Target
from fuzz.worker import Limits, Progress, Shared, work

__all__ = ["Attack", "Found", "Run", "run"]

_POLL: Final = 0.25  # seconds
_TELL_EVERY: Final = 60.0  # seconds
_LAST_WORDS: Final = 20.0  # seconds from the last message to the end of the process
_CLOCK_FACTOR: Final = 6  # hang by the clock, in multiples of ``patience``: a machine may be busy
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Found(msgspec.Struct, frozen=True):
    """A case with a defect. ``what`` describes the defect."""

    target: str
    what: str
    case: bytes


class Run(msgspec.Struct):
    """The result of one target. ``outcomes`` has the number of cases for each outcome."""

    target: str
    seed: int
    seconds: float
    outcomes: dict[str, int]
    found: Found | None = None

    @property
    def cases(self) -> int:
        """The number of judged cases."""
        return sum(self.outcomes.values())


class Attack(msgspec.Struct, frozen=True):
    """A target to run. Each process calls ``make`` once."""

    name: str
    make: Callable[[], Target]
    patience: float  # seconds, see ``Target``


def run(
    attack: Attack,
    limits: Limits,
    *,
    seed: int,
    jobs: int = 1,
    tell: Callable[[Run], None] | None = None,
) -> Run:
    """Run a target in ``jobs`` processes; return at the limits or at the first finding.

    The processes share the count of ``limits``. Each minute, ``tell`` receives the present result.
    """
    begin = told = time.monotonic()
    count = None if limits.count is None else -(-limits.count // jobs)
    each = Limits(limits.seconds, count)
    workers = [_Worker(attack, seed + number, each) for number in range(jobs)]
    present = Run(attack.name, seed, 0.0, {})
    try:
        while not present.found and any(worker.running for worker in workers):
            select.select([worker.pipe for worker in workers if worker.running], [], [], _POLL)
            present.found = next(filter(None, [worker.look() for worker in workers]), None)
            present.outcomes = _together(workers)
            present.seconds = time.monotonic() - begin
            if tell is not None and time.monotonic() - told >= _TELL_EVERY:
                told = time.monotonic()
                tell(present)
    finally:
        for worker in workers:
            worker.end()
    return present


class _Worker:
    """A child process that tries cases. The process leads its own process group."""

    def __init__(self, attack: Attack, seed: int, limits: Limits) -> None:
        self.progress = Progress({})
        self.running = True
        self._attack = attack
        self._shared = Shared()
        self._rest = b""
        self._number = -1  # number of the current case
        self._since = (0.0, 0.0)  # processor time and clock at the begin of this case
        self.pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            _be_worker(attack.make, seed, limits, self._shared, writing)
        # The child makes the same call, and either process may be first.
        with contextlib.suppress(OSError):
            os.setpgid(self._pid, self._pid)
        os.close(writing)

    def look(self) -> Found | None:
        """Read the messages of the process; return a finding, or None."""
        if not self.running:
            return None
        ended = self._hear()
        if self.progress.finding:
            return self._found(self.progress.finding)
        if ended:
            status = self.end()
            if not self.progress.done:
                return self._found(f"the process ended: {_how(status)}")
            return None
        return self._watch()

    def end(self) -> int:
        """End the process and its process group; return the wait status."""
        if not self.running:
            return 0
        self.running = False
        os.close(self.pipe)
        if self.progress.done or self.progress.finding:
            self._wait(_LAST_WORDS)  # the process removes its files
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        return os.waitpid(self._pid, 0)[1]

    def _wait(self, seconds: float) -> None:
        """Wait for the end of the process, for ``seconds`` at most. Do not reap the process."""
        until = time.monotonic() + seconds
        how = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self._pid, how) is None and time.monotonic() < until:
            time.sleep(_POLL / 10)

    def _hear(self) -> bool:
        """Read all available messages; return whether the process has closed the pipe."""
        while select.select([self.pipe], [], [], 0)[0]:
            words = os.read(self.pipe, 65536)
            if not words:
                return True
            *lines, self._rest = (self._rest + words).split(b"\n")
            if lines:
                self.progress = msgspec.json.decode(lines[-1], type=Progress)
        return False

    def _watch(self) -> Found | None:
        number, now = self._shared.begun, (_processor_seconds(self._pid), time.monotonic())
        if number != self._number:
            self._number, self._since = number, now
            return None
        patience = self._attack.patience
        used, passed = now[0] - self._since[0], now[1] - self._since[1]
        if used < patience and passed < _CLOCK_FACTOR * patience:
            return None
        return self._found(f"a hang: {used:.0f} s of processor time in {passed:.0f} s")

    def _found(self, what: str) -> Found:
        return Found(self._attack.name, what, self._shared.case)


def _be_worker(
    make: Callable[[], Target], seed: int, limits: Limits, shared: Shared, pipe: int
) -> NoReturn:
    """Try cases in the child process. Never return to the code of the parent."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Targets draw odd names on purpose, and the certificate library warns about such names.
        warnings.simplefilter("ignore")
        work(make, seed, limits, shared, pipe)
        code = 0
    except BaseException:  # noqa: BLE001 - the child must not run the code of the parent
        traceback.print_exc()
    finally:
        os._exit(code)


def _together(workers: list[_Worker]) -> dict[str, int]:
    total = Counter[str]()
    for worker in workers:
        total.update(worker.progress.outcomes)
    return dict(total.most_common())


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a child in seconds, or 0 for an ended child."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"by signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"with code {os.waitstatus_to_exitcode(status)}"
