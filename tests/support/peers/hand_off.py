"""Two machines on one store: a replica that serves, and a process that asks it for the data key."""

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
    """A process that was just started, on the second machine, and knows nothing yet."""

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
        """Return the state of the journal that the key opens, checked."""
        journal = Journal.open(
            self.store, store_id=STORE_ID, dek=received.dek, at_least=received.give.place
        )
        replay = (await journal)[1]
        state, _ = rebuild(replay.base + replay.events)
        await self.requester.require(received, state)
        return state


class Giver:
    """A replica that serves, on the first machine."""

    def __init__(self, engine: Engine, store: SimulatedStore, used: Collateral | None) -> None:
        self.engine = engine
        self.store = store
        self.giver = KeySender(engine, store, OwnQuotes(platform(0), checks(used=used), SETTINGS))

    async def answer_requests(self) -> None:
        """Let it answer what was asked."""
        await self.giver.answer_requests()

    def is_behind(self) -> bool:
        """Tell whether it hands nothing over any more."""
        return self.giver.behind is not None


@asynccontextmanager
async def serving(
    path: Path, replicas: object, used: Collateral | None = None, **more: object
) -> AsyncIterator[tuple[Giver, Database]]:
    """Have a replica serve whose manifest has ``replicas`` as ``Config.Replicas``, and ``more``.

    ``used``: the collateral that it verifies with.
    """
    database = Database()
    config: dict[str, Any] = {**more} if replicas is None else {"Replicas": replicas, **more}
    await begin(SimulatedStore(database), manifest(1, SealMode="Disabled", **config))
    store = SimulatedStore(database)
    async with engine_on(store, path) as engine:
        yield Giver(engine, store, used), database


def left(database: Database, kind: str) -> Note:
    """Return the one note of ``kind`` that was left."""
    [note] = [note for note in database.notes if note.kind == kind]
    return note


def put(database: Database, note: Note) -> None:
    """Leave ``note`` in place of the one of its kind and name."""
    others = [each for each in database.notes if (each.kind, each.name) != (note.kind, note.name)]
    database.notes = [*others, note]
