"""One run: build a lab, strike it again and again under clients, and collect its history."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPException
from itertools import chain, islice
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from fuzz.chaos.clients import Clients
from fuzz.chaos.deployment import (
    FIRST_VERSION,
    LIMIT,
    REGISTERS,
    chaos_manifest,
    fingerprint,
    probed,
)
from fuzz.chaos.faults import Strike, strikes, upgrades
from fuzz.chaos.history import Fault, History, Recorder
from fuzz.chaos.lab import Lab, Plan, lab
from fuzz.chaos.station import Station
from fuzz.chaos.strike import STRIKES
from fuzz.chaos.updates import Updater, log_of
from support.process.start import KEYHOUSE
from support.replicas.histories import NoAnswerError
from support.samples.deployment import user

__all__ = ["Campaign", "Settings"]

_CALM_SECONDS: Final = 60.0
"""Longest wait before the next fault. Afterwards the run reports replicas that do not serve."""
_END_SECONDS: Final = 180.0
"""Longest time until each replica serves at the end."""
_UPDATE_SECONDS: Final = 2.0
_TYPES_A_SECOND: Final = 0.3
_MOST_TYPES: Final = 400

Tell = Callable[[str], None]


class Settings(NamedTuple):
    """The settings of a run, see ``scripts/chaos --help``."""

    seed: int
    seconds: float
    faults: tuple[str, ...]
    rounds: int | None = None
    longest: float = 25.0
    quiet: float = 1.0  # seconds between faults, when all replicas serve
    pause: float = 0.05  # seconds between two requests of a probe
    machines: int = 3
    replicas: int = 1
    keyhouse: str = KEYHOUSE
    upgrade_to: str = ""  # program that replaces ``keyhouse`` first, machine by machine
    adopts_root: bool = False  # whether ``upgrade_to`` starts with --adopt-root
    cold: bool = True  # each replica starts in a new interpreter
    logs: Path | None = None  # folder for the logs of the replicas; None: not stored


class Campaign:
    """One run. ``history`` grows during the run."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._types = min(max(int(settings.seconds * _TYPES_A_SECOND), 10), _MOST_TYPES)
        self._loads: list[float] = []
        self.history: Final = History(
            seed=settings.seed,
            machines=settings.machines,
            replicas=settings.replicas,
            limit=LIMIT,
            version=FIRST_VERSION,
            manifest=fingerprint(chaos_manifest(settings.machines, self._types)),
        )

    def run(self) -> History:
        """Run; return the history. Without PostgreSQL, raises the exception of ``pytest.skip``."""
        with TemporaryDirectory(prefix="keyhouse-chaos-", ignore_cleanup_errors=True) as folder:
            try:
                self._run_in(Path(folder))
            finally:
                if self._settings.logs is not None:
                    self._settings.logs.mkdir(parents=True, exist_ok=True)
                    for log in Path(folder).glob("*.log"):
                        shutil.copy(log, self._settings.logs)
        self.history.load = round(mean(self._loads or [os.getloadavg()[0]]), 1)
        return self.history

    def _run_in(self, folder: Path) -> None:
        to = self._settings
        plan = Plan(
            folder, to.machines, to.replicas, self._types, to.keyhouse, to.cold,
            to.upgrade_to or to.keyhouse, to.adopts_root,
        )  # fmt: skip
        with lab(plan) as built, built.supervised():
            recorder = Recorder(self.history)
            clients = Clients(built.servers, recorder, self._types, self._settings.pause)
            updater = Updater(clients, to.machines, self._types, _UPDATE_SECONDS)
            try:
                with clients.running(("updates", updater.update)):
                    self._strike(built, recorder, clients)
            finally:
                self.history.seconds = recorder.now()
            self._finish(clients)
            self.history.exits = dict(built.exits)

    def _strike(self, built: Lab, recorder: Recorder, clients: Clients) -> None:
        """Make faults until the end of the time, then wait until all replicas serve."""
        clients.served_since(0.0, _CALM_SECONDS)
        to = self._settings
        rounds = strikes(to.seed, to.faults, to.machines, to.longest)
        if to.upgrade_to:
            rounds = chain(upgrades(to.machines, to.longest), rounds)
        for strike_round in islice(rounds, to.rounds):
            if recorder.now() > to.seconds:
                break
            self._one_round(built, recorder, strike_round)
            away = clients.served_since(recorder.now(), _CALM_SECONDS)
            if away:
                self._tell(f"    not serving after {_CALM_SECONDS:.0f} s: replicas {away}")
            self._loads.append(os.getloadavg()[0])
            clients.pause(to.quiet)
        self.history.away = clients.served_since(recorder.now(), _END_SECONDS)

    def _one_round(self, built: Lab, recorder: Recorder, strike_round: tuple[Strike, ...]) -> None:
        began: list[float] = []
        with ExitStack() as repairs:
            for strike in strike_round:
                began.append(recorder.now())
                self._tell(f"{began[-1]:7.1f} s  {strike.kind}, machine {strike.machine}")
                repairs.enter_context(STRIKES[strike.kind](built, strike))
            time.sleep(max(strike.seconds for strike in strike_round))
        repaired = recorder.now()
        for strike, moment in zip(strike_round, began, strict=True):
            others = tuple(each.kind for each in strike_round if each is not strike)
            recorder.add_fault(Fault(strike.kind, strike.machine, moment, repaired, others))

    def _finish(self, clients: Clients) -> None:
        """Read all objects and the update log at each replica."""
        for replica in range(self.history.machines):
            if replica not in self.history.away:
                self._retried(clients, replica, self._read_all)
        for replica in range(self.history.machines):
            if replica not in self.history.away:
                self._retried(clients, replica, lambda s: self.history.logs.append(log_of(s)))

    def _read_all(self, station: Station) -> None:
        for name in self._secrets():
            station.read_secret(name)
        station.read_manifest()

    def _secrets(self) -> Iterator[str]:
        yield from REGISTERS
        yield from map(probed, range(self.history.machines))

    def _retried(self, clients: Clients, replica: int, work: Callable[[Station], None]) -> None:
        """Do ``work`` at a replica, and repeat after a lost connection."""
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            with (
                suppress(OSError, HTTPException, NoAnswerError),
                clients.station("last", replica, user("writer")) as station,
            ):
                work(station)
                return
        self.history.away.append(replica)
