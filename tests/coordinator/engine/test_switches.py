"""A new data key while several replicas serve: known members send them the key, or they stop."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.captured_log import capture_logs
from support.peers.hand_off import put
from support.samples.deployment import upload, user
from support.samples.machines import NOW as QUOTED, OTHER_CODE, SETTINGS, platform, vouched
from support.samples.replicas import DEK, STORE_ID, begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle
from support.samples.updates import together

from keyhouse.attestation import TcbStatus
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.errors import ConflictError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.commands import InitiateUpdate
from keyhouse.coordinator.core.events import LEVEL, Started
from keyhouse.coordinator.core.evolve import MOST_MEMBERS, evolve_all
from keyhouse.coordinator.core.state import Member, Running
from keyhouse.coordinator.engine.commits import new_dek
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.hand_off.key_switch import make_switch
from keyhouse.coordinator.hand_off.notes import Membership, Quoted, Switch, read_quoted
from keyhouse.coordinator.update.prepare import SentUpdate, prepare_update
from keyhouse.journal import Journal, Position
from keyhouse.journal.store.protocol import Beside, Note
from keyhouse_simulation import COORDINATOR, SimulatedPlatform, make_machine
from keyhouse_simulation.parameters import QuotedEnclave, TcbInfo

BOTH = [{"UniqueID": each.unique_id.hex()} for each in (COORDINATOR, OTHER_CODE)]
OUT_OF_DATE = TcbInfo(status=TcbStatus.OUT_OF_DATE)


def manifest(word: str, *, holders: int = 1, replicas: Any = None) -> bytes:
    names = [f"holder{number}" for number in range(holders)]
    config = {"SealMode": "Disabled", "Replicas": {} if replicas is None else replicas}
    return together(updaters=["alice"], holders=names, word=word, UpdateThreshold=1, **config)


async def database(raw: bytes | None = None) -> Database:
    made = Database()
    await begin(SimulatedStore(made), raw or manifest("first"))
    return made


async def update(engine: Engine, raw: bytes) -> InitiateUpdate:
    command = prepare_update(
        engine.view.running, SentUpdate(user("alice").der, raw), now=engine.current.now()
    )
    assert isinstance(command, InitiateUpdate)
    await engine.submit(command)
    return command


def new_code() -> SimulatedPlatform:
    """Return a machine with a coordinator of other code."""
    return platform(1, QuotedEnclave(measurements=OTHER_CODE))


def notes(database: Database, kind: str = "switch") -> list[Note]:
    return [note for note in database.notes if note.kind == kind]


def instance(engine: Engine) -> bytes:
    return engine.process.instance


def stopped(engine: Engine) -> bool:
    return engine.queue.broken is not None


def reasons(entries: list[dict[str, Any]]) -> list[str]:
    """Return the logged reasons for refused notes, without details."""
    found = [each["reason"] for each in entries if each["event"] == "a note was refused"]
    return [str(each).split(":")[0] for each in found]


@in_simulated_time
async def test_all_live_replicas_follow_into_an_epoch_under_a_new_key(tmp_path: Path) -> None:
    made = await database()
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a") as one,
        engine_on(SimulatedStore(made), tmp_path / "b") as two,
        engine_on(SimulatedStore(made), tmp_path / "c") as three,
    ):
        await until_idle()
        await upload(one, {"note": b"before"})
        command = await update(one, manifest("second", holders=2))
        await until_idle()
        dek = new_dek(command)
        assert dek is not None
        switches = {note.name: Switch.read(note.raw) for note in notes(made)}
        assert switches.keys() == {instance(two), instance(three)}
        for engine in (one, two, three):
            assert engine.view.position == one.view.position
            assert engine.held is not None
            assert engine.held.dek == dek
        await upload(three, {"note": b"after"})
        await until_idle()
        for engine in (one, two):
            assert engine.view.running.secrets["note"].private.reveal() == b"after"
        command = await update(two, manifest("third", holders=1))
        await until_idle()
        assert [engine.held.dek == new_dek(command) for engine in (one, two, three) if engine.held]
        for note in notes(made):
            assert dek.reveal() not in note.raw


@in_simulated_time
async def test_who_missed_an_epoch_follows_over_the_next_ones(tmp_path: Path) -> None:
    made = await database()
    away = SimulatedStore(made)
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a") as one,
        engine_on(away, tmp_path / "b") as other,
    ):
        await until_idle()
        away.deaf = True
        await update(one, manifest("second", holders=2))
        await update(one, manifest("third", holders=3))
        await update(one, manifest("fourth", holders=3))  # an epoch under the same key
        await until_idle()
        other.queue.request_follow()
        await until_idle()
        assert other.view.position == one.view.position


class Attacker:
    """An attacker with the database, old data keys, and keys of invented instances."""

    def __init__(self) -> None:
        self.keys = InstanceKeys()
        self.member = Member(b"A" * 16, self.keys.signing, self.keys.kem, b"", b"")

    @property
    def membership(self) -> Membership:
        return Membership(
            store_id=STORE_ID,
            instance=self.member.instance,
            kem=self.keys.kem,
            signing=self.keys.signing,
            settings=SETTINGS,
            level=LEVEL,
        )

    def switch_for(
        self, reader: Member, after: Position, writer: bytes, dek: Secret = DEK
    ) -> Switch:
        claimed = msgspec.structs.replace(self.member, instance=writer)
        made = make_switch(reader, claimed, self.keys, store_id=STORE_ID, after=after, dek=dek)
        assert made is not None
        return made


def with_fields(**fields: object) -> Callable[[Switch], Switch]:
    return lambda switch: msgspec.structs.replace(switch, **fields)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_fields(signature=bytes(64)), "signature"),
        (with_fields(key_check=b"k" * 32), "signature"),
        (with_fields(sealed=b"s" * 1168), "signature"),
        (with_fields(epoch=9), "signature"),
        (with_fields(after=Position(1, 1, b"c" * 32)), "signature"),
        (with_fields(store_id=b"o" * 16), "other-store"),
        (with_fields(reader=b"o" * 16), "sealed-for-another"),
        (with_fields(writer=b"o" * 16), "writer"),
    ],
    ids=["unsigned", "key check", "sealed", "epoch", "place", "store", "reader", "writer"],
)
def test_a_switch_that_was_changed_is_refused_by_name(
    tmp_path: Path, change: Callable[[Switch], Switch], reason: str
) -> None:
    async def run(path: Path) -> None:
        made = await database()
        away = SimulatedStore(made)
        async with (
            engine_on(SimulatedStore(made), path / "a") as one,
            engine_on(away, path / "b") as other,
        ):
            await until_idle()
            away.deaf = True
            await update(one, manifest("second", holders=2))
            [note] = notes(made)
            put(made, msgspec.structs.replace(note, raw=change(Switch.read(note.raw)).encode()))
            with capture_logs() as entries:
                other.queue.request_follow()
                await until_idle()
            assert stopped(other)
            assert not stopped(one)
            assert reasons(entries) == [reason]

    in_simulated_time(run)(tmp_path)


@pytest.mark.parametrize(("is_told", "reason"), [(False, "writer"), (True, "signature")])
def test_a_switch_of_an_attacker_is_refused(
    tmp_path: Path,
    is_told: bool,  # noqa: FBT001 - a column of the table
    reason: str,
) -> None:
    """The old key is enough to write records. But the attacker cannot sign for a member."""

    async def run(path: Path) -> None:
        made, attacker = await database(), Attacker()
        away = SimulatedStore(made)
        async with (
            engine_on(SimulatedStore(made), path / "a") as one,
            engine_on(away, path / "b") as other,
        ):
            await until_idle()
            away.deaf = True
            before = other.view.position
            assert before is not None
            await update(one, manifest("second", holders=2))
            writer = instance(one) if is_told else attacker.member.instance
            forged = attacker.switch_for(other.view.running.members[-1], before, writer)
            put(made, Note("switch", instance(other), forged.encode()))
            with capture_logs() as entries:
                other.queue.request_follow()
                await until_idle()
            assert stopped(other)
            assert reasons(entries) == [reason]
            assert other.view.position == before

    in_simulated_time(run)(tmp_path)


@in_simulated_time
async def test_an_old_switch_is_not_followed_again(tmp_path: Path) -> None:
    made = await database()
    away = SimulatedStore(made)
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a") as one,
        engine_on(away, tmp_path / "b") as other,
    ):
        await until_idle()
        await update(one, manifest("second", holders=2))
        await until_idle()
        [old] = notes(made)
        away.deaf = True
        await update(one, manifest("third", holders=3))
        put(made, old)
        with capture_logs() as entries:
            other.queue.request_follow()
            await until_idle()
        assert stopped(other)
        assert reasons(entries) == ["epoch"]


@in_simulated_time
async def test_who_the_new_manifest_dismisses_is_not_told(tmp_path: Path) -> None:
    made = await database(manifest("first", replicas={"Code": BOTH}))
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a", new_code()) as new,
        engine_on(SimulatedStore(made), tmp_path / "b", new_code()) as also,
        engine_on(SimulatedStore(made), tmp_path / "c") as old,
    ):
        await until_idle()
        command = await update(new, manifest("second", replicas={"Code": BOTH[1:]}))
        assert new_dek(command) is not None
        await until_idle()
        assert [note.name for note in notes(made)] == [instance(also)]
        assert stopped(old)
        assert not stopped(also)
        assert also.view.position == new.view.position


@in_simulated_time
async def test_an_update_is_refused_where_the_new_manifest_dismisses_the_code(
    tmp_path: Path,
) -> None:
    """The updating code would make the new data key, and so know the key."""
    made = await database(manifest("first", replicas={"Code": BOTH}))
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a", new_code()) as new,
        engine_on(SimulatedStore(made), tmp_path / "b") as old,
    ):
        await until_idle()
        before = old.view.position
        with pytest.raises(ConflictError, match="does not admit"):
            await update(old, manifest("second", replicas={"Code": BOTH[1:]}))
        await until_idle()
        assert (new.view.position, old.view.position) == (before, before)
        assert notes(made) == []
        await update(new, manifest("second", replicas={"Code": BOTH[1:]}))
        await until_idle()
        assert [stopped(new), stopped(old)] == [False, True]


@in_simulated_time
async def test_a_platform_whose_status_is_no_longer_accepted_makes_no_key_and_is_told_none(
    tmp_path: Path,
) -> None:
    made = await database(manifest("first", replicas={"AcceptedTCBStatuses": ["OutOfDate"]}))
    late = platform(0, info=OUT_OF_DATE).collateral
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a", used=late) as one,
        engine_on(SimulatedStore(made), tmp_path / "b", used=late) as other,
    ):
        await until_idle()
        with pytest.raises(ConflictError, match="OutOfDate"):
            await update(one, manifest("second"))
        again = manifest("second", holders=2, replicas={"AcceptedTCBStatuses": ["OutOfDate"]})
        await update(one, again)
        await until_idle()
        assert [note.name for note in notes(made)] == [instance(other)]
        assert [stopped(each) for each in (one, other)] == [False, False]


@in_simulated_time
async def test_no_key_is_made_where_the_own_quote_cannot_be_verified(tmp_path: Path) -> None:
    """The key could reach no member, and nothing shows that this code may know the key."""
    made = await database()
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a", used=_strange().collateral) as one,
        engine_on(SimulatedStore(made), tmp_path / "b") as other,
    ):
        await until_idle()
        before = one.view.position
        with pytest.raises(UnavailableError, match="own quote"):
            await update(one, manifest("second", holders=2))
        await until_idle()
        assert [each.view.position for each in (one, other)] == [before, before]
        assert notes(made) == []
        await upload(one, {"note": b"as before"})


@in_simulated_time
async def test_without_the_section_nobody_is_told(tmp_path: Path) -> None:
    made = await database()
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a") as one,
        engine_on(SimulatedStore(made), tmp_path / "b") as other,
    ):
        await until_idle()
        raw = together(
            updaters=["alice"], holders=["holder0"], UpdateThreshold=1, SealMode="Disabled"
        )
        command = await update(one, raw)
        assert new_dek(command) is not None
        await until_idle()
        assert notes(made) == []
        assert stopped(other)


@in_simulated_time
async def test_members_are_in_the_state_and_in_each_base(tmp_path: Path) -> None:
    made = await database()
    async with engine_on(SimulatedStore(made), tmp_path / "a") as one:
        state, log = one.view.running, one.view.log
        assert [member.instance for member in state.members] == [instance(one)]
        assert evolve_all(None, base_events(state, log)) == state
        await update(one, manifest("second"))
        assert one.view.running.members == state.members


@in_simulated_time
async def test_the_newest_members_are_kept(tmp_path: Path) -> None:
    made = await database()
    async with engine_on(SimulatedStore(made), tmp_path / "a") as one:
        own = one.view.running.members[0]
        many = [
            msgspec.structs.replace(own, instance=number.to_bytes(16, "big"))
            for number in range(MOST_MEMBERS)
        ]
        starts = [
            Started(time=1, instance=member.instance, version="", measurement=b"", member=member)
            for member in (*many, many[-1], many[1])
        ]
        state = evolve_all(one.view.running, starts)
        assert isinstance(state, Running)
        assert state.members == (many[0], *many[2:], many[1])


# --- members planted by dismissed holders ---

Planted = Callable[[Attacker, Member, Note], Note | None]


def _vouched(on: Callable[[], SimulatedPlatform], **fields: object) -> Planted:
    """Return a note with the attacker's keys and a quote of the coordinator on ``on``."""

    def plant(attacker: Attacker, _true: Member, _note: Note) -> Note:
        said = msgspec.structs.replace(attacker.membership, **fields)
        return Note("member", b"A" * 16, vouched(on(), "member", said.encode()))

    return plant


def _with_quote_of(change: Callable[[Membership, Membership], Membership]) -> Planted:
    """Return a note with the quote of a true member."""

    def plant(attacker: Attacker, _true: Member, note: Note) -> Note:
        quoted = read_quoted(note.raw)
        message = change(attacker.membership, Membership.read(quoted.message)).encode()
        return Note("member", b"A" * 16, Quoted(message, quoted.quote).encode())

    return plant


def _strange() -> SimulatedPlatform:
    return SimulatedPlatform(make_machine(QUOTED), now=lambda: QUOTED)


def _on_ask(attacker: Attacker, _true: Member, _note: Note) -> Note:
    raw = vouched(platform(1), "ask", attacker.membership.encode())
    return Note("member", b"A" * 16, raw)


PLANTED: dict[str, tuple[Planted, str]] = {
    "no quote": (lambda *_: None, "no-quote"),
    "the quote of a true member": (_with_quote_of(lambda own, _: own), "binding"),
    "the note of a true member": (_with_quote_of(lambda _, true: true), "other-keys"),
    "a quote of other code": (_vouched(new_code), "code"),
    "a quote of a debug enclave": (
        _vouched(lambda: platform(1, QuotedEnclave(debug=True))),
        "debug",
    ),
    "a simulated quote beside hardware": (_vouched(_strange), "certificate-chain"),
    "a quote over an ask": (_on_ask, "binding"),
    "a quote for another store": (_vouched(platform, store_id=b"o" * 16), "other-store"),
    "a quote with other settings": (_vouched(platform, settings=b"o" * 32), "other-settings"),
    "a level that is too low": (_vouched(platform, level=0), "level"),
    "garbage": (lambda *_: Note("member", b"A" * 16, os.urandom(500)), "malformed"),
}


async def plant(made: Database, attacker: Attacker, note: Note | None) -> None:
    """Write a record of the attacker's member with the data key, and put ``note``."""
    journal, _ = await Journal.open(SimulatedStore(made), store_id=STORE_ID, dek=DEK)
    record = Started(
        time=1, instance=b"A" * 16, version="", measurement=b"", member=attacker.member
    )
    await journal.append(list(encode_events([record])))
    if note is not None:
        put(made, note)


@pytest.mark.parametrize(("planted", "reason"), PLANTED.values(), ids=PLANTED)
def test_a_planted_member_is_not_told_of_the_next_key(
    tmp_path: Path, planted: Planted, reason: str
) -> None:
    """Holders with enough shares and the database can write anything before their dismissal."""

    async def run(path: Path) -> None:
        made, attacker = await database(), Attacker()
        async with (
            engine_on(SimulatedStore(made), path / "a") as one,
            engine_on(SimulatedStore(made), path / "b") as other,
        ):
            await until_idle()
            true = one.view.running.members[-1]
            shown = next(note for note in notes(made, "member") if note.name == true.instance)
            await plant(made, attacker, planted(attacker, true, shown))
            await until_idle()
            assert attacker.member in one.view.running.members
            with capture_logs() as entries:
                await update(one, manifest("second", holders=2))
                await until_idle()
            assert [note.name for note in notes(made)] == [instance(other)]
            [told] = [
                each for each in entries if each["event"].startswith("a member did not receive")
            ]
            assert told["instance"] == (b"A" * 16).hex()
            assert str(told["reason"]).split(":")[0] == reason
            assert not stopped(other)

    in_simulated_time(run)(tmp_path)


@pytest.mark.parametrize("quoted", ["no-quote", "code"])
def test_a_planted_member_leads_nobody_to_a_key_of_its_own(tmp_path: Path, quoted: str) -> None:
    """The chain is public: an accepted member can continue the chain under any key."""

    async def run(path: Path) -> None:
        made, attacker = await database(), Attacker()
        true = attacker.member
        note = _vouched(new_code)(attacker, true, Note("member", b"", b""))
        async with engine_on(SimulatedStore(made), path / "a") as one:
            await until_idle()
            await plant(made, attacker, note if quoted == "code" else None)
            await until_idle()
            await update(one, manifest("second", holders=2))
            before, own = one.view.position, Secret(b"A" * 32)
            assert before is not None
            forged = attacker.switch_for(one.view.running.members[0], before, b"A" * 16, own)
            beside = Beside(notes=(Note("switch", instance(one), forged.encode()),))
            store = SimulatedStore(made)
            journal = Journal(store, store_id=STORE_ID, dek=own, position=before)
            base = encode_events(base_events(one.view.running, one.view.log))
            with capture_logs() as entries:
                await journal.begin_epoch(base, dek=own, beside=beside)
                await until_idle()
            assert reasons(entries) == [quoted]
            assert stopped(one)
            assert one.view.position == before

    in_simulated_time(run)(tmp_path)
