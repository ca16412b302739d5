"""Clients of the replicas. Each client records its requests and answers.

Each replica has a write probe and a read probe, so gaps in its service are visible. The remaining
clients use all replicas in turn. They write and read secrets, raise counters, activate workloads,
and read the manifest.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from random import Random
from typing import Final

import grpc
from fuzz.chaos.deployment import REGISTERS, probed
from fuzz.chaos.history import Outcome, Recorder
from fuzz.chaos.station import Station
from support.peers.joined import asked_to_join
from support.process.server import Client, Server
from support.replicas.histories import NoAnswerError, connected, counting_workload
from support.replicas.threads import threads
from support.samples.deployment import User, user

__all__ = ["Clients"]

_PATIENCE: Final = 5.0  # seconds until an answer; a fault may stop a process for longer
_PAUSE: Final = 0.05  # seconds after each failure, and at most between calls of a client
_CALLS: Final = 20  # calls on one connection


Work = Callable[[Random, int], None]


class Clients:
    """All clients, each in a thread."""

    def __init__(self, servers: list[Server], recorder: Recorder, types: int, pause: float) -> None:
        """``pause``: seconds between two requests of a probe."""
        self._servers, self._recorder = servers, recorder
        self._probe_pause = pause
        self._types = types
        self._ending = threading.Event()
        self._moved = threading.Condition()
        self._served: dict[str, float] = defaultdict(float)  # time of the last answer, by probe
        self._counts: dict[str, int] = defaultdict(int)
        self._full_types: set[int] = set()
        self.failed: Final[list[BaseException]] = []

    @contextmanager
    def running(self, *more: tuple[str, Work]) -> Iterator["Clients"]:
        """Run all clients until the context ends. ``more``: further clients by name."""
        works = enumerate([*more, *self._works()])
        with threads(self._ending, [partial(self._run, number, *each) for number, each in works]):
            yield self
        if self.failed:
            raise self.failed[0]

    def served_since(self, moment: float, patience: float) -> list[int]:
        """Wait until each probe had an answer after ``moment``; return the replicas without one."""

        def missing() -> list[int]:
            return [
                machine
                for machine in range(len(self._servers))
                if min(self._served[f"{what} {machine}"] for what in ("write", "read")) <= moment
            ]

        with self._moved:
            self._moved.wait_for(lambda: self.failed or not missing(), timeout=patience)
        return missing()

    @contextmanager
    def station(self, name: str, replica: int, who: User | None) -> Iterator[Station]:
        """Connect a client to a replica."""
        with connected(self._servers[replica], who, _PATIENCE) as connection:
            yield Station(self._recorder, name, replica, connection)

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or until the run ends."""
        self._ending.wait(seconds)

    def _works(self) -> Iterator[tuple[str, Work]]:
        for machine in range(len(self._servers)):
            yield f"write {machine}", partial(self._write_probe, machine)
            yield f"read {machine}", partial(self._read_probe, machine)
        for number in range(4):
            yield f"writer {number}", partial(self._registers, f"writer {number}")
        for number in range(2):
            yield f"counter {number}", partial(self._count, number)
        yield "activations", self._activate
        yield "reader", self._read_manifest

    def _run(self, number: int, name: str, work: Work) -> None:
        chance = Random(number)  # noqa: S311 - chooses requests, no secrets
        replica = number
        try:
            while not self._ending.is_set():
                replica += 1
                with suppress(OSError, EOFError, HTTPException, NoAnswerError):
                    work(chance, replica % len(self._servers))
                    continue
                self._ending.wait(_PAUSE)
        except BaseException as error:  # noqa: BLE001 a thread must not end silently
            error.add_note(f"client {name}")
            self.failed.append(error)
            with self._moved:
                self._moved.notify_all()

    def _next(self, name: str) -> int:
        """Return the next number of a client, so each written value is unique."""
        self._counts[name] += 1
        return self._counts[name]

    def _write_probe(self, machine: int, chance: Random, replica: int) -> None:
        del chance, replica
        name = f"write {machine}"
        with self.station(name, machine, user("writer")) as station:
            while not self._ending.wait(self._probe_pause):
                if station.write_secret(probed(machine), f"{machine}.{self._next(name)}"):
                    self._note(name)

    def _read_probe(self, machine: int, chance: Random, replica: int) -> None:
        del replica
        name = f"read {machine}"
        with self.station(name, machine, user("writer")) as station:
            while not self._ending.wait(self._probe_pause):
                station.read_secret(probed(chance.randrange(len(self._servers))))
                self._note(name)

    def _note(self, probe: str) -> None:
        with self._moved:
            self._served[probe] = self._recorder.now()
            self._moved.notify_all()

    def _registers(self, name: str, chance: Random, replica: int) -> None:
        with self.station(name, replica, user("writer")) as station:
            for _ in range(_CALLS):
                secret = chance.choice(REGISTERS)
                if chance.random() < 0.4:
                    station.write_secret(secret, f"{name}.{self._next(name)}")
                else:
                    station.read_secret(secret)
                if self._ending.wait(chance.random() * _PAUSE):
                    return

    def _count(self, number: int, chance: Random, replica: int) -> None:
        """Raise a counter to unique values. Two clients raise it, so values may not be in order."""
        name = f"counter {number}"
        with self.station(name, replica, counting_workload(self._servers[replica])) as station:
            for _ in range(_CALLS):
                value = self._next(name) * 2 + number
                call = partial(Client.post, path="/api/v2/monotonic-counter",
                               value={"name": "x", "value": value})  # fmt: skip
                if not station.change(
                    "counter x", "raise", value, call, lambda reply: reply.data["value"]
                ):
                    return  # the certificate of this workload is from an earlier manifest
                if self._ending.wait(chance.random() * _PAUSE):
                    return

    def _activate(self, chance: Random, replica: int) -> None:
        """Request one activation of a type below its limit."""
        left = [each for each in range(self._types) if each not in self._full_types]
        if left:
            which = chance.choice(left[:3])
            began = self._recorder.now()
            ended = asked_to_join(self._servers[replica], f"limit{which}")
            told = {grpc.StatusCode.OK: True, grpc.StatusCode.PERMISSION_DENIED: False}
            answered = ended.code in told
            self._recorder.add(
                client="activations", replica=replica, key=f"limit {which}", what="take",
                began=began, outcome=Outcome.DONE if answered else Outcome.UNKNOWN,
                result=told.get(ended.code),
            )  # fmt: skip
            if ended.code is grpc.StatusCode.PERMISSION_DENIED:
                self._full_types.add(which)
        self._ending.wait(0.3)

    def _read_manifest(self, chance: Random, replica: int) -> None:
        with self.station("reader", replica, None) as station:
            for _ in range(_CALLS):
                station.read_manifest()
                if self._ending.wait(chance.random() * _PAUSE * 4):
                    return
