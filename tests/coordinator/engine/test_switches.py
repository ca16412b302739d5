"""A new data key while several replicas serve: they are told of it, by whom they know, or stop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.captured_log import capture_logs
from support.samples.deployment import upload, user
from support.samples.replicas import DEK, STORE_ID, begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import SimulatedLoop, until_idle
from support.samples.updates import together

from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.coordinator import Engine
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.commands import InitiateUpdate
from keyhouse.coordinator.core.events import Started
from keyhouse.coordinator.core.evolve import MOST_MEMBERS, evolve_all
from keyhouse.coordinator.core.state import Member, Running
from keyhouse.coordinator.engine.batch import new_dek
from keyhouse.coordinator.hand_off.notes import Switch, read_switch
from keyhouse.coordinator.hand_off.switching import make_switch
from keyhouse.coordinator.update.prepare import prepare_update
from keyhouse.journal import Position
from keyhouse.journal.store.records import Note

NEW_CODE = b"\x22" * 32
BOTH = [{"UniqueID": "11" * 32}, {"UniqueID": "22" * 32}]


def manifest(word: str, *, holders: int = 1, replicas: Any = None) -> bytes:
    names = [f"holder{number}" for number in range(holders)]
    config = {"SealMode": "Disabled", "Replicas": {} if replicas is None else replicas}
    return together(updaters=["alice"], holders=names, word=word, UpdateThreshold=1, **config)


def in_simulated_time(test: Callable[[Path], Any]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            runner.run(test(tmp_path))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def database(raw: bytes | None = None) -> Database:
    made = Database()
    await begin(SimulatedStore(made), raw or manifest("first"))
    return made


async def update(engine: Engine, raw: bytes) -> InitiateUpdate:
    command = prepare_update(engine.view.running, user("alice").der, raw, now=engine.now())
    assert isinstance(command, InitiateUpdate)
    await engine.submit(command)
    return command


def instance(engine: Engine) -> bytes:
    return engine._process.instance


def stopped(engine: Engine) -> bool:
    return engine.is_broken


def reasons(entries: list[dict[str, Any]]) -> list[str]:
    """Return why notes were refused, in the words for programs."""
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
        switches = {note.name: read_switch(note.raw) for note in made.notes}
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
        for note in made.notes:
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
        other.look()
        await until_idle()
        assert other.view.position == one.view.position


class Attacker:
    """Who has the database, old data keys, and keys of instances of their own."""

    def __init__(self) -> None:
        self.keys = InstanceKeys()
        self.member = Member(b"A" * 16, self.keys.signing, self.keys.kem, b"p" * 16, b"\x11" * 32)

    def switch_for(self, reader: Member, after: Position, writer: bytes) -> Switch:
        claimed = msgspec.structs.replace(self.member, instance=writer)
        made = make_switch(reader, claimed, self.keys, store_id=STORE_ID, after=after, dek=DEK)
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
            [note] = made.notes
            raw = change(read_switch(note.raw)).encode()
            made.notes = [msgspec.structs.replace(note, raw=raw)]
            with capture_logs() as entries:
                other.look()
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
    """Who knows the old key can write records; but is not a member, and cannot sign for one."""

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
            made.notes = [Note("switch", instance(other), forged.encode())]
            with capture_logs() as entries:
                other.look()
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
        [old] = made.notes
        away.deaf = True
        await update(one, manifest("third", holders=3))
        made.notes = [old]
        with capture_logs() as entries:
            other.look()
            await until_idle()
        assert stopped(other)
        assert reasons(entries) == ["epoch"]


@in_simulated_time
async def test_who_the_new_manifest_dismisses_is_not_told(tmp_path: Path) -> None:
    made = await database(manifest("first", replicas={"Code": BOTH}))
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a", NEW_CODE) as new,
        engine_on(SimulatedStore(made), tmp_path / "b", NEW_CODE) as also,
        engine_on(SimulatedStore(made), tmp_path / "c") as old,
    ):
        await until_idle()
        command = await update(new, manifest("second", replicas={"Code": BOTH[1:]}))
        assert new_dek(command) is not None
        await until_idle()
        assert [note.name for note in made.notes] == [instance(also)]
        assert stopped(old)
        assert not stopped(also)
        assert also.view.position == new.view.position


@in_simulated_time
async def test_a_platform_whose_status_is_no_longer_accepted_is_not_told(tmp_path: Path) -> None:
    made = await database(manifest("first", replicas={"AcceptedTCBStatuses": ["OutOfDate"]}))
    async with (
        engine_on(SimulatedStore(made), tmp_path / "a") as one,
        engine_on(SimulatedStore(made), tmp_path / "b") as also,
        engine_on(SimulatedStore(made), tmp_path / "c", tcb_status="OutOfDate") as old,
        engine_on(SimulatedStore(made), tmp_path / "d", tcb_status="") as unknown,
    ):
        await until_idle()
        await update(one, manifest("second"))
        await until_idle()
        assert [note.name for note in made.notes] == [instance(also)]
        assert [stopped(each) for each in (one, also, old, unknown)] == [False, False, True, True]


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
        assert made.notes == []
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
