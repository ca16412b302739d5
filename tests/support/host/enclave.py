"""An enclave with the host's own code. The quotes are true: they state the host's code."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from keyhouse.attestation import Measurements
from keyhouse.attestation.quote.binding import replica_report_data
from keyhouse.authority import instance_keys
from keyhouse.base.secret import Secret
from keyhouse.coordinator.hand_off.exchange import key_in, make_ask
from keyhouse.coordinator.hand_off.notes import (
    Ask,
    Give,
    Membership,
    Quoted,
    digest_of,
    read_give,
    read_quoted,
)
from keyhouse.journal import Position
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Note
from keyhouse.transparency.line import Code
from keyhouse_simulation import SimulatedPlatform, add_machine
from support.host.invented_state import InventedState

__all__ = ["ADMITTED", "HOST_CODE", "HostEnclave", "code_of_quotes"]

HOST_CODE = Measurements(b"THE HOST'S CODE, OF ITS SIGNER..", b"S" * 32, 0x5111, 1)
"""The code of the host; no coordinator accepts its signer."""

ADMITTED = {"UniqueID": HOST_CODE.unique_id.hex()}
"""The entry of ``Config.Replicas.Code`` for the host's code."""


def code_of_quotes(found: Measurements) -> Code:
    """Return the entry of the line for the code of these measurements."""
    return Code(
        tee="sgx",
        unique=found.unique_id.hex(),
        signer=found.signer_id.hex(),
        product=found.product_id,
        svn=found.security_version,
        vm="",
        version="0.2.0",
    )


class HostEnclave:
    """Receives data keys from coordinators, and hands over the data keys that the host made."""

    def __init__(self, folder: Path, beside: Path) -> None:
        """Make a machine in ``folder`` with the simulated vendor of the machine in ``beside``."""
        self.platform: SimulatedPlatform = add_machine(folder, beside, coordinator=HOST_CODE)

    @contextmanager
    def giving(self, url: Secret, state: InventedState, place: Position) -> Iterator[None]:
        """Answer the first ask for the data key of ``state``, then leave the database."""
        ended = threading.Event()
        answered = threading.Thread(
            target=lambda: asyncio.run(self._give(url, state, place, ended)), daemon=True
        )
        answered.start()
        try:
            yield
        finally:
            ended.set()
            answered.join()

    def take(self, url: Secret) -> tuple[bytes, Secret]:
        """Return the store id and the data key from a coordinator that admits this code.

        The enclave claims the same settings as the coordinator, and verifies nothing.
        """

        async def ask() -> tuple[bytes, Secret]:
            database = PostgresDatabase(url)
            try:
                store_id = await database.current()
                assert store_id is not None
                (member, *_) = await database.notes(store_id, "member")
                settings = Membership.read(read_quoted(member.raw).message).settings
                return store_id, await self._asked(database, store_id, settings)
            finally:
                await database.close()

        return asyncio.run(ask())

    async def _asked(self, database: PostgresDatabase, store_id: bytes, settings: bytes) -> Secret:
        instance, keys = b"H" * 16, instance_keys.InstanceKeys()
        raw = make_ask(store_id, instance, keys, settings, None).encode()
        quote = self.platform.quote(replica_report_data("ask", raw))
        await database.announce_presence()
        await database.put_note(store_id, Note("ask", instance, Quoted(raw, quote).encode()))
        while True:
            for note in await database.notes(store_id, "give"):
                if note.name == instance:
                    return key_in(read_give(read_quoted(note.raw).message), keys)

    async def _give(
        self, url: Secret, state: InventedState, place: Position, ended: threading.Event
    ) -> None:
        database = PostgresDatabase(url)
        try:
            await database.announce_presence()
            asks: tuple[Note, ...] = ()
            while not asks and not ended.is_set():
                asks = await database.notes(state.store_id, "ask")
            for ask in asks:
                await database.put_note(state.store_id, self._answer(ask, state, place))
        finally:
            await database.close()

    def _answer(self, note: Note, state: InventedState, place: Position) -> Note:
        message = read_quoted(note.raw).message
        ask = Ask.read(message)
        give = Give(
            ask=digest_of(message),
            store_id=state.store_id,
            giver=b"G" * 16,
            root=hashlib.sha256(state.root_der).digest(),
            place=place,
            sealed=b"",
        )
        sealed = instance_keys.seal_for(ask.kem, state.dek, give.info)
        raw = replace(give, sealed=sealed).encode()
        quote = self.platform.quote(replica_report_data("give", raw))
        return Note("give", ask.instance, Quoted(raw, quote).encode())
