"""Dismissed holders: they have the old data key and the database, and want the next key."""

import asyncio
from typing import NamedTuple

from support.peers.replicas import Replicas, code_of, update, with_replicas
from support.process.server import PATIENCE
from support.samples.machines import OTHER_CODE

from keyhouse.attestation.quote.binding import replica_report_data
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.events import LEVEL, Started
from keyhouse.coordinator.core.state import Member
from keyhouse.coordinator.engine.records import encode_events, rebuild
from keyhouse.coordinator.hand_off.key_switch import make_switch
from keyhouse.coordinator.hand_off.notes import Membership, Quoted, read_quoted
from keyhouse.journal import Journal
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Beside, Note
from keyhouse_simulation import SimulatedPlatform, add_machine

FORGED_KEY = Secret(b"F" * 32)


class Attacker(NamedTuple):
    """Who has the URL of the database, and a machine on which other code runs."""

    url: Secret
    machine: SimulatedPlatform
    keys: InstanceKeys

    def member(self, letter: bytes) -> Member:
        return Member(letter * 16, self.keys.signing, self.keys.kem, b"", b"")

    async def plant(self, store_id: bytes, dek: Secret) -> None:
        """Record members A, B and C, with the data key, and leave what quotes there are."""
        store = await PostgresStore.open(self.url, store_id)
        journal, _ = await Journal.open(store, store_id=store_id, dek=dek)
        started = [
            Started(time=1, instance=each.instance, version="", measurement=b"", member=each)
            for each in map(self.member, (b"A", b"B", b"C"))
        ]
        await journal.append(list(encode_events(started)))
        await store.close()
        database = PostgresDatabase(self.url)
        (true, *_) = await database.notes(store_id, "member")
        await database.put_note(store_id, self._with_quote_of(true))
        await database.put_note(store_id, self._with_own_quote(true))
        await database.close()

    def _with_quote_of(self, true: Note) -> Note:
        quoted = read_quoted(true.raw)
        said = self._said(b"B", quoted).encode()
        return Note("member", b"B" * 16, Quoted(said, quoted.quote).encode())

    def _with_own_quote(self, true: Note) -> Note:
        said = self._said(b"C", read_quoted(true.raw)).encode()
        quote = self.machine.quote(replica_report_data("member", said))
        return Note("member", b"C" * 16, Quoted(said, quote).encode())

    def _said(self, letter: bytes, true: Quoted) -> Membership:
        member, seen = self.member(letter), Membership.read(true.message)
        return Membership(
            store_id=seen.store_id,
            instance=member.instance,
            kem=member.kem,
            signing=member.signing,
            settings=seen.settings,
            level=LEVEL,
        )

    async def told(self, store_id: bytes) -> set[bytes]:
        """Return which members switches were left for."""
        database = PostgresDatabase(self.url)
        notes = await database.notes(store_id, "switch")
        await database.close()
        return {note.name for note in notes}

    async def forge_epoch(self, store_id: bytes, payloads: tuple[bytes, ...]) -> None:
        """Continue the chain with an epoch under a key of one's own, and lead all there."""
        state, log = rebuild(payloads)
        store = await PostgresStore.open(self.url, store_id)
        place = await store.head()
        assert place is not None
        writer = self.member(b"C")
        switches = [
            make_switch(each, writer, self.keys, store_id=store_id, after=place, dek=FORGED_KEY)
            for each in state.members
        ]
        notes = tuple(Note("switch", each.reader, each.encode()) for each in switches if each)
        journal = Journal(store, store_id=store_id, dek=FORGED_KEY, position=place)
        base = encode_events(base_events(state, log.view()))
        await journal.begin_epoch(base, dek=FORGED_KEY, beside=Beside(b"", (), notes))
        await store.close()


def test_planted_members_are_not_told_of_the_next_key_and_lead_nobody(replicas: Replicas) -> None:
    """The attack: records of members, written with the old key, and keys of the attacker in them.

    One has no quote, one that of a true member, one that of other code on a true machine. None is
    told of the next key; and none can lead those who serve to an epoch of its own.
    """
    assert replicas.url is not None
    (first,) = replicas.founded(1, with_replicas(holders=1))
    second = replicas.elsewhere().start()
    folder = replicas.folder / "attacker"
    machine = add_machine(folder, first.data / "simulation", coordinator=OTHER_CODE)
    attacker = Attacker(replicas.url, machine, InstanceKeys())
    old = replicas.opened()
    store_id, dek = old.journal.store_id, old.journal.dek
    true = {each.instance for each in rebuild(old.replay.base + old.replay.events)[0].members}
    asyncio.run(attacker.plant(store_id, dek))

    update(first, with_replicas("second", holders=2))
    told = asyncio.run(attacker.told(store_id))
    assert len(told) == 1
    assert told < true
    assert (code_of(first), code_of(second)) == (3, 3)
    for letter, reason in ((b"A", "no-quote"), (b"B", "binding"), (b"C", "code")):
        line = next(each for each in first.logged().splitlines() if (letter * 16).hex() in each)
        assert "a member did not receive the new data key" in line
        assert reason in line

    asyncio.run(attacker.forge_epoch(store_id, old.replay.base + old.replay.events))
    for server in (first, second):
        assert server.process is not None
        assert server.process.wait(PATIENCE) == 3
    assert "a note was refused" in first.logged()
