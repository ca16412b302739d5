"""Replicas with appends before the flush, and crashes of the database between append and flush.

This machine has all rules of ``machine``, and more: flushes wait, and the server restarts or its
standby is promoted, with or without the undurable commits. Each published position is durable at
its publication, and never vanishes. A replica that knew only undurable records beyond the store
continues.
"""

import asyncio
import math
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from keyhouse.journal import Position
from support.replicas.machine import WHICH, Replica, Replicas
from support.samples.simulated_store import Database

__all__ = ["SharedFlushes"]

_SECONDS: Final = 0.6  # of simulated time; more than the pause after a failed flush or write


class SharedFlushes(Replicas):
    """A deployment whose journal declares shared flushes."""

    shares_flush = True

    async def _start(self, beginning: object) -> None:
        self.published: list[Position] = []
        self.wrong: list[str] = []
        self.last: dict[Replica, Position] = {}
        await super()._start(beginning)  # type: ignore[arg-type]

    def joined(self, replica: Replica) -> None:
        """Let ``replica`` append early, and record all published positions."""
        replica.engine._following._crowded_until = math.inf
        replica.engine.current.on_view.append(lambda: self._note(replica))
        self._note(replica)

    def _note(self, replica: Replica) -> None:
        position, database = replica.engine.view.position, replica.store.database
        assert position is not None
        if position == self.last.get(replica):  # published again
            return
        self.last[replica] = position
        if position not in _durable_heads(database):
            self.wrong.append(f"{position.sequence} was published before it was durable")
        if database is self.database:
            self.published.append(position)

    @rule(which=WHICH, alone=st.booleans())
    def write_alone(self, which: int, *, alone: bool) -> None:
        """Let a replica append together with the flush, as a sole writer does, or before it."""
        self._one(which).engine._following._crowded_until = 0.0 if alone else math.inf

    @rule()
    def hold_flushes(self) -> None:
        for replica in self.replicas:
            replica.store.hold_flushes()

    @rule(which=WHICH)
    def hold_flushes_of_one(self, which: int) -> None:
        self._one(which).store.hold_flushes()

    @rule()
    def let_flushes_pass(self) -> None:
        for replica in self.replicas:
            replica.store._flushing.set()

    @rule(survive=st.integers(0, 3))
    def crash(self, survive: int) -> None:
        """Restart the server, or promote a standby, with a part of the undurable commits."""

        async def crash() -> None:
            self.database.crash(survive)

        self.runner.run(crash())

    @rule(changes=st.lists(st.tuples(WHICH, st.booleans()), min_size=1, max_size=4), survive=WHICH)
    def crash_before_the_flush(self, changes: list[tuple[int, bool]], survive: int) -> None:
        """Let replicas write in order; no write is durable at the crash."""
        self.hold_flushes()
        for which, counts in changes:
            if counts:
                self.raise_counter(which)
            else:
                self.upload(which)
            self.runner.run(self._conclude())
        self.crash(survive)
        self.let_flushes_pass()

    async def _accept_loss(self) -> None:
        await super()._accept_loss()
        self.published.clear()

    async def _check(self) -> None:
        await asyncio.sleep(_SECONDS)  # a replica repeats a failed flush after a pause
        await super()._check()
        for replica in self.replicas:
            assert not (replica.changes and self._must_answer(replica))
        assert not self.wrong, self.wrong
        assert set(self.published) <= _durable_heads(self.database)

    def _must_answer(self, replica: Replica) -> bool:
        """Return whether a replica can flush all changes."""
        store = replica.store
        waits = store.down or store.frozen is not None or replica.held or store.holds_flushes
        turn = self.database.owner is not None  # the owner waits for its flush
        return not (waits or turn) and store.database is self.database and replica.journal.settled


def _durable_heads(database: Database) -> set[Position | None]:
    return {each.head for each in database.history[: database.durable]}
