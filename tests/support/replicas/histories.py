"""Eight clients of several replicas, and the history of all their calls and answers."""

import base64
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from typing import Any, Final

import grpc

from support.peers.joined import asked_to_join, workload
from support.peers.replicas import manifest
from support.process.server import Client, Reply, Server
from support.replicas.linearizability import (
    REFUSED,
    History,
    Object,
    counted_up_to,
    highest,
    permission,
    register,
    violation,
)
from support.replicas.porcupine import Porcupine
from support.replicas.threads import threads
from support.samples.deployment import User, user

__all__ = [
    "LIMIT",
    "Clients",
    "NoAnswerError",
    "connected",
    "counting_workload",
    "shared_manifest",
]

LIMIT: Final = 25
"""The maximum number of activations of the type ``limited``."""

VALUES: Final = ("s0", "s1")
PATIENCE: Final = 20.0  # seconds until an answer counts as lost: its call may still take effect
MARBLE: Final = "11111111-2222-3333-4444-555555555555"
KINDS: Final = {"limit": counted_up_to(LIMIT), "counter": highest(), "reader": permission()}


def shared_manifest(word: str = "first", *, reads: bool = True) -> bytes:
    """Return a manifest with a limited marble type; with ``reads``, ``bob`` may read secrets."""

    def change(document: dict[str, Any]) -> None:
        document["Marbles"]["limited"] = {"Package": "app", "MaxActivations": LIMIT}
        if reads:
            certificate = user("bob").pem.decode()
            document["Users"]["bob"] = {"Certificate": certificate, "Roles": ["write"]}

    return manifest(word, change, FeatureGates=["MonotonicCounter"])


class Clients:
    """Clients that visit the replicas in turn, and leave a silent replica."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.history: Final = History(time.monotonic)
        self.answered: Final = dict.fromkeys(range(8), 0)
        self._servers = servers
        self._ending = threading.Event()
        self._moved = threading.Condition()
        self._failed: list[BaseException] = []

    @contextmanager
    def running(self, *, updates: bool = False) -> Iterator["Clients"]:
        """Send requests until the context ends; ``updates``: also grant and revoke a permission."""
        counting, limited = (self._use, self._update) if updates else (self._count, self._activate)
        works: list[Callable[[Server, random.Random, int], None]]
        works = [*[self._values] * 5, counting, counting, limited]
        with threads(self._ending, (partial(self._run, *each) for each in enumerate(works))):
            yield self
        if self._failed:
            raise self._failed[0]

    def progress(self, number: int = 10) -> None:
        """Return when each client has ``number`` more answers."""
        before = dict(self.answered)

        def moved() -> bool:
            least = min(count - before[client] for client, count in self.answered.items())
            return bool(self._failed) or least >= number

        with self._moved:
            assert self._moved.wait_for(moved, timeout=90)

    def judge(self, porcupine: Porcupine | None) -> None:
        """Require answers that a single coordinator could give, one call at a time.

        Without ``porcupine`` only the checker in Python judges.
        """

        def kind(key: str) -> Object:
            return KINDS.get(key) or register()

        found = violation(self.history.calls, kind)
        assert not found, found
        if porcupine is not None:
            # Calls without an answer may take effect at any time; with many, porcupine times out.
            assert "Illegal" not in porcupine.opinion(self.history.calls, kind).values()

    def _run(self, number: int, work: Callable[[Server, random.Random, int], None]) -> None:
        chance = random.Random(number)  # noqa: S311 - selects requests
        at = number
        try:
            while not self._ending.is_set():
                at += 1
                with suppress(OSError, HTTPException, NoAnswerError):
                    work(self._servers[at % len(self._servers)], chance, number)
        except BaseException as error:  # noqa: BLE001 a thread of a test must not end silently
            self._failed.append(error)

    def _noted(self, number: int) -> bool:
        """Count an answer; return whether to send more requests to this replica."""
        with self._moved:
            self.answered[number] += 1
            self._moved.notify_all()
        return not self._ending.is_set() and self.answered[number] % 20 != 0

    def _values(self, server: Server, chance: random.Random, number: int) -> None:
        with connected(server, user("writer")) as client:
            more = True
            while more:
                name = chance.choice(VALUES)
                if chance.random() < 0.4:
                    value = f"{number}.{chance.random()}".encode()
                    end = self.history.begin(name, "write", value)
                    _changed(end, client.upload({name: value}))
                else:
                    end = self.history.begin(name, "read")
                    data = _read(end, client.get(f"/api/v2/secrets?s={name}")).data
                    private = data["secrets"][name]["private"]
                    end(None if private is None else base64.b64decode(private))
                more = self._noted(number)

    def _count(self, server: Server, chance: random.Random, number: int) -> None:
        """Raise the same counter of the same workload."""
        with connected(server, counting_workload(server)) as client:
            more = True
            while more:
                value = self.answered[number] + chance.randrange(5)
                end = self.history.begin("counter", "raise", value)
                body = {"name": "x", "value": value}
                _changed(end, client.post("/api/v2/monotonic-counter", body), "value")
                more = self._noted(number)

    def _activate(self, server: Server, chance: random.Random, number: int) -> None:
        del chance
        end = self.history.begin("limit", "take")
        ended = asked_to_join(server, "limited")
        if ended.answer is None and ended.code is grpc.StatusCode.UNAVAILABLE:
            raise NoAnswerError
        assert ended.answer is not None or ended.code is grpc.StatusCode.PERMISSION_DENIED, ended
        end(ended.answer is not None)
        self._noted(number)

    def _use(self, server: Server, chance: random.Random, number: int) -> None:
        """Read as ``bob``, with or without the permission."""
        del chance
        with connected(server, user("bob")) as client:
            more = True
            while more:
                end = self.history.begin("reader", "use")
                end(_read(end, client.get("/api/v2/secrets?s=s0"), 401).status == 200)
                more = self._noted(number)

    def _update(self, server: Server, chance: random.Random, number: int) -> None:
        """Grant or revoke the permission of ``bob``."""
        with connected(server, user("alice")) as client:
            reads = chance.random() < 0.5
            raw = shared_manifest(f"{number}.{chance.random()}", reads=reads)
            end = self.history.begin("reader", "give" if reads else "revoke")
            body = {"manifest": base64.b64encode(raw).decode()}
            _changed(end, client.post("/api/v2/update", body))
            self._noted(number)


class NoAnswerError(Exception):
    """The replica refused, or the outcome is unknown: continue at another replica."""


@contextmanager
def connected(server: Server, who: User | None, patience: float = PATIENCE) -> Iterator[Client]:
    """Connect before any request, so a refused connection is not a lost answer."""
    with server.client(who) as client:
        client.connection.timeout = patience
        client.connection.connect()
        yield client


def counting_workload(server: Server) -> User:
    """Activate the counting workload again; return the workload."""
    ended = asked_to_join(server, "app", MARBLE)
    if ended.answer is None:
        raise NoAnswerError
    return workload(ended)


def _changed(end: Callable[[Any], None], reply: Reply, field: str = "") -> None:
    """End a change in the history with its result, if the answer states the result."""
    if reply.status == 200:
        end(reply.data[field] if field else None)
        return
    assert reply.status in {500, 503}, reply
    if reply.happened is False:
        end(REFUSED)
    raise NoAnswerError


def _read(end: Callable[[Any], None], reply: Reply, *refused: int) -> Reply:
    if reply.status in {200, *refused}:
        return reply
    assert reply.status == 503, reply
    end(REFUSED)
    raise NoAnswerError
