"""States without a line, as older versions wrote them, in a database that coordinators share."""

import asyncio
import hashlib
import os

import pytest
from msgspec.structs import replace
from support.host.invented_state import InventedState, invent
from support.peers.replicas import Replicas, awaited, code_of, propose, with_replicas
from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.recovery import Holder, hand_in
from support.samples.updates import holder_key

from keyhouse.attestation.quote.binding import replica_report_data
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.coordinator.core.state import Member
from keyhouse.coordinator.hand_off.notes import Membership, Quoted
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Note
from keyhouse.transparency.line import RootLine, read_line
from keyhouse.wire.base64_text import decode_base64
from keyhouse_simulation import add_machine

pytestmark = pytest.mark.acceptance

OLD = with_replicas("an older version began with this", holders=1)
NEXT = with_replicas("next", holders=1)


def line_at(server: Server, root_der: bytes) -> RootLine | None:
    """Return the line that ``server`` answers; None: it has not begun."""
    with server.client() as client:
        reply = client.get("/api/v2/line?nonce=" + "A" * 22)
        if reply.status == 404:
            return None
        entries = [decode_base64(each["entry"], maximum=9000) for each in reply.data["entries"]]
    return read_line(entries, root_der)


def recover(state: InventedState, client: Client) -> None:
    """Restore ``state`` with the share of its only holder."""
    good = Holder("holder0", holder_key("holder0"))
    share = good.share(state.running.recovery.ciphertexts[good.name])
    assert hand_in(client, share, good.sign(share)).status == 200


def adopting(state: InventedState) -> tuple[str, str]:
    return "--adopt-root", hashlib.sha256(state.root_der).hexdigest()


def test_an_old_state_in_a_database_is_adopted_and_others_join(replicas: Replicas) -> None:
    assert replicas.url is not None
    state = invent(OLD)
    state.write_database(replicas.url)
    refused = replicas.started()
    with refused.client() as client:
        good = Holder("holder0", holder_key("holder0"))
        share = good.share(state.running.recovery.ciphertexts[good.name])
        answer = hand_in(client, share, good.sign(share))
        assert answer.status == 400
        assert b"nothing proves that this root was made by accepted code" in answer.body
    refused.stop()
    first = replicas.prepared(*adopting(state)).start()
    with first.client() as client:
        recover(state, client)
    while (line := line_at(first, state.root_der)) is None:
        pass  # it begins within a second: no older version shares the database
    assert type(line.first).__name__ == "Adopted"
    second = replicas.elsewhere(*adopting(state)).start()
    assert code_of(second) == 3
    assert propose(second, NEXT).status == 200
    found = line_at(first, state.root_der)
    assert found is not None
    assert found.continues(1, read_line(line.raw[:1], state.root_der).last_hash)
    assert found.manifests == tuple(hashlib.sha256(raw).hexdigest() for raw in (OLD, NEXT))
    other = replicas.elsewhere()  # without the setting
    given = first.logged().count("handed to another coordinator")
    other.launch()
    awaited("--adopt-root does not name it", other)
    while first.logged().count("handed to another coordinator") < given + 4:
        pass  # it asks again and again
    assert other.logged().count("the data key that was handed over is not used") == 1


def test_the_line_waits_while_an_older_version_shares_the_database(replicas: Replicas) -> None:
    """An older process stops at the first event that it does not know."""
    assert replicas.url is not None
    keys, instance = InstanceKeys(), os.urandom(16)
    member = Member(instance, keys.signing, keys.kem, b"", b"")
    state = invent(OLD)
    state = state._replace(running=replace(state.running, members=(member,)))
    state.write_database(replicas.url)
    first = replicas.prepared(*adopting(state)).start()
    machine = add_machine(replicas.folder / "older", first.data / "simulation")

    def membership(level: int) -> bytes:
        return Membership(
            store_id=state.store_id,
            instance=instance,
            kem=keys.kem,
            signing=keys.signing,
            settings=bytes(32),
            level=level,
        ).encode()

    said = membership(1)
    quoted = Quoted(said, machine.quote(replica_report_data("member", said)))

    async def leave(note: Note) -> None:
        assert replicas.url is not None
        database = PostgresDatabase(replicas.url)
        try:
            await database.put_note(state.store_id, note)
        finally:
            await database.close()

    asyncio.run(leave(Note("member", instance, quoted.encode())))
    with first.client() as client:
        recover(state, client)
    with first.client(user("writer")) as writer:
        assert writer.upload({"note": b"written without a line"}).status == 200
    second = replicas.elsewhere(*adopting(state)).start()
    assert code_of(second) == 3  # it is handed the key in messages that both versions read
    assert line_at(first, state.root_der) is None
    asyncio.run(leave(Note("member", instance, Quoted(membership(2), quoted.quote).encode())))
    while line_at(first, state.root_der) is None:
        pass
