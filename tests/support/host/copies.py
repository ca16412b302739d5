"""Copies, replacements and forged records of the states of genuine coordinators, by a host.

Only a host with the data key can write records.
"""

import asyncio
import shutil
from collections.abc import Sequence

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import Event
from keyhouse.coordinator.engine.records import encode_events, rebuild
from keyhouse.journal import Journal, log_name
from keyhouse.journal.shared.log_parts import DatabaseParts
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Beside
from support.host.invented_state import InventedState
from support.peers.postgres import PostgresServer
from support.process.server import Server

__all__ = ["DatabaseCopy", "append_events", "begin_invented_epoch", "state_in"]

_TABLES = ("current", "head", "epoch", "record", "sealed", "note")


class DatabaseCopy:
    """A copy of a database and of a coordinator's directory. Nothing runs on the copy."""

    def __init__(self, postgres: PostgresServer, database: str, server: Server) -> None:
        self._postgres, self._database, self._server = postgres, database, server
        self._folder = server.data.with_name(f"{server.data.name}-copy")
        shutil.copytree(server.data, self._folder)
        self._each("CREATE TABLE public.{0} AS TABLE keyhouse.{0}")

    def put_back(self) -> None:
        """Replace the present database and directory by the copy."""
        shutil.rmtree(self._server.data)
        shutil.copytree(self._folder, self._server.data)
        self._each("DELETE FROM keyhouse.{0}", "INSERT INTO keyhouse.{0} TABLE public.{0}")

    def _each(self, *statements: str) -> None:
        for table in _TABLES:
            for statement in statements:
                asyncio.run(self._postgres.ask(statement.format(table), database=self._database))


def append_events(url: Secret, store_id: bytes, dek: Secret, events: Sequence[Event]) -> None:
    """Append ``events`` to the journal in the database at ``url``, as the writer appends events."""

    async def append() -> None:
        store = await PostgresStore.open(url, store_id)
        try:
            journal, _ = await Journal.open(store, store_id=store_id, dek=dek)
            await journal.append(list(encode_events(events)))
        finally:
            await store.close()

    asyncio.run(append())


def begin_invented_epoch(url: Secret, state: InventedState) -> None:
    """Begin an epoch with ``state`` in the journal of the database at ``url``."""

    async def begin() -> None:
        store, database = await PostgresStore.open(url, state.store_id), PostgresDatabase(url)
        try:
            journal, _ = await Journal.open(store, store_id=state.store_id, dek=state.dek)
            index = state.recovery_index(journal.position.epoch + 1)
            if state.running.public_log is not None:
                parts = DatabaseParts(database, log_name(state.running.public_log.verifier))
                await parts.put_objects(state.objects)
            await journal.begin_epoch(state.base, beside=Beside(index, ()))
        finally:
            await database.close()
            await store.close()

    asyncio.run(begin())


def state_in(url: Secret, store_id: bytes, dek: Secret) -> InventedState:
    """Return the state in the database at ``url``; the host can read and rewrite the state."""

    async def read() -> InventedState:
        store = await PostgresStore.open(url, store_id)
        try:
            _, replay = await Journal.open(store, store_id=store_id, dek=dek)
        finally:
            await store.close()
        running, update_log = rebuild((*replay.base, *replay.events))
        return InventedState(running, update_log, dek, store_id)

    return asyncio.run(read())
