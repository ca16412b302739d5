"""What clients of the replicas are shown, and what they must be shown.

Each answer passes the gate of its replica. It shows every change that was acknowledged before it
was asked for, so it follows no rule that was revoked before. Whatever its replica is shown by the
store, no client is shown an older state than it has seen, or another history. All answers together
could have come from one coordinator that does one thing at a time.
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
    """What callers were told before an answer was asked for."""

    position: Position | None = None  # behind all that was acknowledged
    revoked: bool = False  # ``writer`` may do nothing
    grants: int = 0  # how often that was to change since
    losses: int = 0  # how often the database lost something


class Client:
    """One that remembers the newest place it was shown."""

    def __init__(self) -> None:
        self.seen: Place | None = None


class Read:
    """An answer that was asked for."""

    def __init__(self, client: Client, promises: Promises, began: float) -> None:
        self.client, self.promises, self.began = client, promises, began
        self.seen = client.seen
        self.honest = True  # whether the replica is shown what there is
        self.problem: KeyhouseError | None = None
        self.answer: asyncio.Future[None]


class Readers:
    """The clients, and the history of all that they were told."""

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
        """Ask for an answer, as one client or the other."""
        self._turn += 1
        read = Read(self._clients[self._turn % 2], self.promises, self.history.now())
        read.honest = store.frozen is None and store.database is self._database
        read.answer = gate.confirmed(lambda problem: self._answer(read, engine, gate, problem))
        return read

    def acknowledged(self, position: Position | None, *, revoked: bool = False) -> None:
        """Take note of a change that its caller knows to be durable."""
        before = self.promises.position
        assert position is not None
        if before is None or before.sequence < position.sequence:
            self.promises = self.promises._replace(position=position)
        if revoked:
            self.promises = self.promises._replace(revoked=True)

    def grants(self) -> None:
        """Take note that ``writer`` may get its permission back."""
        self.promises = self.promises._replace(revoked=False, grants=self.promises.grants + 1)

    def judge(self) -> None:
        """Require that one coordinator could have told all of it."""
        found = violation(self.history.calls, self._kind)
        assert not found, found

    def lost(self) -> None:
        """Begin again: the database lost what it had, and all that was told may be wrong."""
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
        """Answer as a replica does, and check that."""
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
        """Put what was shown into the history."""
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
