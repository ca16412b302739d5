"""The answers of replicas to clients, and the rules for these answers.

Each answer passes the gate of its replica. The answer includes every change acknowledged before
the request, and applies no permission revoked before the request. Whatever the store shows to the
replica, no client receives an older state than before, or another history. A single coordinator
with one call at a time could give all answers.
"""

import asyncio
from typing import Any, Final, NamedTuple

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.coordinator import Engine, Running, View, counter_of
from keyhouse.coordinator.engine.current import place_of
from keyhouse.coordinator.engine.read_gate import ForkError, ReadGate
from keyhouse.journal import Position
from keyhouse.wire.headers import Place
from support.replicas.linearizability import (
    Call,
    History,
    Object,
    counted_up_to,
    highest,
    permission,
    register,
    violation,
)
from support.samples.simulated_store import Database, SimulatedStore

__all__ = ["ACTIVATIONS", "RAISED", "WRITER", "Promises", "Read", "Readers"]

RAISED, ACTIVATIONS, WRITER = "the counter", "activations", "the permission of writer"


class Promises(NamedTuple):
    """The knowledge of callers before a request."""

    position: Position | None = None  # after all acknowledged changes
    revoked: bool = False  # ``writer`` has no permission
    grants: int = 0  # number of requested grants of the permission
    losses: int = 0  # number of losses of the database


class Client:
    """A client with a memory of the newest place."""

    def __init__(self) -> None:
        self.seen: Place | None = None


class Read:
    """A requested answer."""

    def __init__(self, client: Client, promises: Promises, began: float) -> None:
        self.client, self.promises, self.began = client, promises, began
        self.seen = client.seen
        self.honest = True  # whether the store shows the present content to the replica
        self.problem: KeyhouseError | None = None
        self.answer: asyncio.Future[None]


class Readers:
    """The clients, and the history of all their answers."""

    def __init__(
        self, database: Database, counter: str, marble: tuple[str, str], limit: int
    ) -> None:
        self.promises = Promises()
        self.history = History()
        self._database = database
        self._counter, self._marble, self._limit = counter, marble, limit
        self._clients: Final = [Client(), Client()]
        self._turn = 0

    def ask(self, engine: Engine, gate: ReadGate, store: SimulatedStore) -> Read:
        """Request an answer; two clients take turns."""
        self._turn += 1
        read = Read(self._clients[self._turn % 2], self.promises, self.history.now())
        read.honest = store.frozen is None and store.database is self._database
        read.answer = gate.confirmed(lambda problem: self._answer(read, engine, gate, problem))
        return read

    def acknowledged(self, position: Position | None, *, revoked: bool = False) -> None:
        """Record a change; the caller knows its durability."""
        before = self.promises.position
        assert position is not None
        if before is None or before.sequence < position.sequence:
            self.promises = self.promises._replace(position=position)
        if revoked:
            self.promises = self.promises._replace(revoked=True)

    def grants(self) -> None:
        """Record that ``writer`` may receive the permission again."""
        self.promises = self.promises._replace(revoked=False, grants=self.promises.grants + 1)

    def judge(self) -> None:
        """Require that a single coordinator could give all answers."""
        found = violation(self.history.calls, self._kind)
        assert not found, found

    def lost(self) -> None:
        """Begin again after a loss of the database: all earlier answers may be wrong."""
        if not self.promises.losses:
            self.judge()
        losses = self.promises.losses + 1
        self.promises = Promises(grants=self.promises.grants + 1, losses=losses)

    def _kind(self, key: str) -> Object:
        kinds = {
            RAISED: highest(),
            ACTIVATIONS: counted_up_to(self._limit),
            WRITER: permission(),
        }
        return kinds.get(key) or register()

    def _answer(
        self, read: Read, engine: Engine, gate: ReadGate, problem: KeyhouseError | None
    ) -> None:
        """Answer as a replica does, and check the answer."""
        view, read.problem = engine.view, problem
        position = view.position
        assert position is not None
        if problem is not None:
            return
        if read.honest and read.promises.losses == self.promises.losses:
            self._keeps(read.promises, view)
            self._note(read, view.running)
        on_the_way = read.seen in {place_of(at.head) for at in self._database.history if at.head}
        try:
            if read.seen is not None:
                gate.require(read.seen)
        except (UnavailableError, ForkError):
            assert not (read.honest and on_the_way)
            return
        place = place_of(position)
        if read.seen is not None:
            assert place.sequence >= read.seen.sequence
            assert place == read.seen or place.sequence > read.seen.sequence
        if read.client.seen is None or read.client.seen.sequence < place.sequence:
            read.client.seen = place

    def _keeps(self, promised: Promises, view: View) -> None:
        position = view.position
        assert position is not None
        assert promised.position is None or position.sequence >= promised.position.sequence
        if promised.revoked and promised.grants == self.promises.grants:
            assert not _may_write(view.running)

    def _note(self, read: Read, state: Running) -> None:
        """Record an answer in the history."""
        if self.promises.losses:
            return
        values = {name: stored.private.reveal() for name, stored in state.secrets.items()}
        shown: dict[str, Any] = {
            **{name: values.get(name) for name in self.history.calls},
            RAISED: counter_of(state, self._marble, self._counter),
            ACTIVATIONS: state.activations.get(self._marble[0], 0),
        }
        shown.pop(WRITER, None)
        ended = self.history.now()
        for key, value in shown.items():
            self.history.add(key, Call("read", None, value, read.began, ended))
        self.history.add(WRITER, Call("use", None, _may_write(state), read.began, ended))


def _may_write(state: Running) -> bool:
    return b'"writer": {"Certificate"' in state.manifest
