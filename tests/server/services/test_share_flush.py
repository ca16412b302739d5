"""When replicas begin to share flushes, and what an older version is told from then on."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.captured_log import capture_logs
from support.peers.hand_off import Asker, left, put, serving
from support.samples.deployment import manifest
from support.samples.machines import SETTINGS, platform, vouched
from support.samples.replicas import STORE_ID, begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle

from keyhouse.coordinator import Engine, Running
from keyhouse.coordinator.core.events import FLUSH_LEVEL
from keyhouse.coordinator.core.line import level_of
from keyhouse.coordinator.hand_off.notes import Ask, Membership, read_quoted
from keyhouse.journal.store.protocol import Note

OLD = FLUSH_LEVEL - 1
ANYBODY: dict[str, Any] = {}


def _shares(engine: Engine) -> bool:
    return engine.view.running.shares_flush


async def _begun(engine: Engine) -> None:
    """Return once flushes are shared: the other one has to be a member first."""
    while not _shares(engine):
        await engine.share_flush()
        await asyncio.sleep(0)


def _speaks(database: Database, engine: Engine, level: int) -> None:
    """Let the note of the member that ``engine`` is say that it reads events up to ``level``."""
    [own] = [
        each for each in engine.view.running.members if each.instance == engine.process.instance
    ]
    membership = Membership(
        store_id=STORE_ID,
        instance=own.instance,
        kem=own.kem,
        signing=own.signing,
        settings=SETTINGS,
        level=level,
    )
    put(database, Note("member", own.instance, vouched(platform(), "member", membership.encode())))


@in_simulated_time
async def test_a_replica_without_others_begins_nothing(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), manifest(1, SealMode="Disabled"))
    async with engine_on(SimulatedStore(database), tmp_path / "a") as alone:
        before = alone.view.position
        await alone.share_flush()
        assert alone.view.position == before
        assert not _shares(alone)


@in_simulated_time
async def test_the_beginning_waits_until_no_member_is_of_an_older_version(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), manifest(1, SealMode="Disabled"))
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
        engine_on(SimulatedStore(database), tmp_path / "c") as third,
    ):
        await until_idle()
        _speaks(database, other, OLD)
        for engine in (one, third):
            await engine.share_flush()
            assert not _shares(engine)
        # The old one has ended, and an hour has passed.
        database.notes = [each for each in database.notes if each.name != other.process.instance]
        await one.share_flush()
        await until_idle()
        for engine in (one, other, third):
            assert _shares(engine)
            assert level_of(engine.view.running) == FLUSH_LEVEL
        before = one.view.position
        for engine in (one, other, third):
            await engine.share_flush()
        await until_idle()
        assert one.view.position == before


@in_simulated_time
async def test_all_replicas_at_once_begin_once(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), manifest(1, SealMode="Disabled"))
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await until_idle()
        records = len(database.stored.records)
        store = other.writer.present.store
        assert isinstance(store, SimulatedStore)
        store.deaf = True  # so that it decides on the state before
        await one.share_flush()
        await other.share_flush()
        await until_idle()
        assert _shares(one)
        assert _shares(other)
        assert len(database.stored.records) == records + 1


@pytest.mark.parametrize(("level", "reasons"), [(OLD, ["level"]), (FLUSH_LEVEL, [])])
async def test_after_the_beginning_an_older_version_is_refused_the_data_key_by_name(
    tmp_path: Path, level: int, reasons: list[str]
) -> None:
    async with serving(tmp_path / "a", ANYBODY) as (giver, database):
        engine = giver.engine
        async with engine_on(SimulatedStore(database), tmp_path / "b"):
            await _begun(engine)
        asker = Asker(database)
        await asker.requester.send_request()
        note = left(database, "ask")
        ask = msgspec.structs.replace(Ask.read(read_quoted(note.raw).message), level=level)
        raw = vouched(platform(1), "ask", ask.encode())
        put(database, msgspec.structs.replace(note, raw=raw))
        with capture_logs() as entries:
            await giver.answer_requests()
        found = [each["reason"].partition(":")[0] for each in entries if "reason" in each]
        assert found == reasons


async def test_a_new_data_key_is_not_sent_to_an_older_version(tmp_path: Path) -> None:
    async with serving(tmp_path / "a", ANYBODY) as (giver, database):
        engine = giver.engine
        async with engine_on(SimulatedStore(database), tmp_path / "b") as other:
            await _begun(engine)
            state = engine.view.state
            assert isinstance(state, Running)
            _speaks(database, other, OLD)
            shared = engine._following._shared
            assert shared is not None
            position = engine.view.position
            assert position is not None
            with capture_logs() as entries:
                notes = await shared.notes_of(
                    engine.writer.present.dek, state, store_id=STORE_ID, after=position
                )
            assert notes == ()
            assert [each["reason"].partition(":")[0] for each in entries] == ["level"]
