"""Two machines on a store: a serving replica, and a process that requests its data key."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from keyhouse.attestation import Collateral
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.coordinator import Engine, Running
from keyhouse.coordinator.engine.records import rebuild
from keyhouse.journal import Journal, Position
from keyhouse.journal.store.protocol import Note
from keyhouse.server.services.hand_off import KeyRequester, KeySender, OwnQuotes, ReceivedKey
from keyhouse.server.services.quote_checks import ProcessMarks
from keyhouse_simulation import SimulatedPlatform
from support.samples.deployment import manifest
from support.samples.machines import SETTINGS, checks, platform
from support.samples.replicas import STORE_ID, begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore


class Asker:
    """A new process on the second machine, without any state."""

    def __init__(
        self,
        database: Database,
        on: SimulatedPlatform | None = None,
        *,
        store_id: bytes = STORE_ID,
        settings: bytes = SETTINGS,
        known: Position | None = None,
        used: Collateral | None = None,
    ) -> None:
        self.store = SimulatedStore(database)
        self.instance = os.urandom(16)
        self.keys = InstanceKeys()
        marks = ProcessMarks()
        self.requester = KeyRequester(
            self.store,
            OwnQuotes(on or platform(1), checks(marks, used), settings),
            marks,
            self.keys,
            self.instance,
            store_id,
            known,
        )

    async def opened(self, received: ReceivedKey) -> Running:
        """Return the state in the journal that the received key opens, after all checks."""
        journal = Journal.open(
            self.store, store_id=STORE_ID, dek=received.dek, at_least=received.give.place
        )
        replay = (await journal)[1]
        state, _ = rebuild(replay.base + replay.events)
        await self.requester.require(received, state)
        return state


class Giver:
    """A serving replica on the first machine."""

    def __init__(self, engine: Engine, store: SimulatedStore, used: Collateral | None) -> None:
        self.engine = engine
        self.store = store
        self.giver = KeySender(engine, store, OwnQuotes(platform(0), checks(used=used), SETTINGS))

    async def answer_requests(self) -> None:
        await self.giver.answer_requests()

    def is_behind(self) -> bool:
        """Return whether the replica has stopped handing over the key."""
        return self.giver.behind is not None


@asynccontextmanager
async def serving(
    path: Path, replicas: object, used: Collateral | None = None, **more: object
) -> AsyncIterator[tuple[Giver, Database]]:
    """Run a replica. Its manifest has ``replicas`` as ``Config.Replicas``, and ``more``.

    ``replicas`` None: the manifest has no such field. ``used``: the collateral of the replica's
    checks.
    """
    database = Database()
    config: dict[str, Any] = {**more} if replicas is None else {"Replicas": replicas, **more}
    await begin(SimulatedStore(database), manifest(1, SealMode="Disabled", **config))
    store = SimulatedStore(database)
    async with engine_on(store, path) as engine:
        yield Giver(engine, store, used), database


def left(database: Database, kind: str) -> Note:
    """Return the only note of ``kind``."""
    [note] = [note for note in database.notes if note.kind == kind]
    return note


def put(database: Database, note: Note) -> None:
    """Replace the note with the kind and name of ``note`` by ``note``."""
    others = [each for each in database.notes if (each.kind, each.name) != (note.kind, note.name)]
    database.notes = [*others, note]
