"""Replicas of an older version never receive unreadable events."""

from pathlib import Path

import pytest
from support.living.renewal import LIVING
from support.samples.activation import marble_manifest
from support.samples.machines import SETTINGS, platform as machine, vouched
from support.samples.replicas import STORE_ID, begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle

from keyhouse.base.errors import ConflictError
from keyhouse.coordinator import Engine
from keyhouse.coordinator.core.events import FLUSH_LEVEL, LEVEL, LIVING_LEVEL
from keyhouse.coordinator.core.line import level_of
from keyhouse.coordinator.hand_off.exchange import require_answerable
from keyhouse.coordinator.hand_off.notes import Ask, Membership, NoteProblem, NoteRefusedError
from keyhouse.journal.store.protocol import Note


async def state_level(store: SimulatedStore, one: Engine, other: Engine, level: int) -> None:
    """Let ``other`` state that it reads events up to ``level``."""
    members = one.view.running.members
    own = next(each for each in members if each.instance == other.process.instance)
    membership = Membership(
        store_id=STORE_ID,
        instance=own.instance,
        kem=own.kem,
        signing=own.signing,
        settings=SETTINGS,
        level=level,
    )
    raw = vouched(machine(), "member", membership.encode())
    await store.put_note(Note("member", own.instance, raw))


@in_simulated_time
async def test_early_appends_begin_after_the_last_older_replica(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), marble_manifest())
    store = SimulatedStore(database)
    async with (
        engine_on(store, tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await until_idle()
        for level in range(1, LEVEL + 1):
            await state_level(store, one, other, level)
            before = one.view.position
            await one.share_flush()
            shares = level >= FLUSH_LEVEL
            assert one.view.running.shares_flush == shares
            assert (one.view.position != before) == shares
            assert (level_of(one.view.running) == FLUSH_LEVEL) == shares
        at = one.view.position
        await one.share_flush()  # a repetition has no effect
        assert one.view.position == at


@in_simulated_time
async def test_a_single_coordinator_appends_nothing_early(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), marble_manifest())
    async with engine_on(SimulatedStore(database), tmp_path / "a") as one:
        await until_idle()
        await one.share_flush()
        assert not one.view.running.shares_flush


@in_simulated_time
async def test_a_living_manifest_waits_for_the_last_older_replica(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), marble_manifest())
    store = SimulatedStore(database)
    async with (
        engine_on(store, tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await until_idle()
        for level in range(1, LEVEL + 1):
            await state_level(store, one, other, level)
            await one.require_readers(marble_manifest())
            if level >= LIVING_LEVEL:
                await one.require_readers(LIVING)
            else:
                with pytest.raises(ConflictError):
                    await one.require_readers(LIVING)


@in_simulated_time
async def test_an_older_coordinator_does_not_join_a_journal_of_a_higher_level(
    tmp_path: Path,
) -> None:
    """The refusal names both levels, and the next step."""
    for raw, shares in ((marble_manifest(), False), (LIVING, False), (LIVING, True)):
        database = Database()
        await begin(SimulatedStore(database), raw, shares_flush=shares)
        async with engine_on(SimulatedStore(database), tmp_path / f"{len(raw)}-{shares}") as one:
            await until_idle()
            held = one.held
            assert held is not None
            assert held.level == level_of(one.view.running)
            for level in range(1, LEVEL + 1):
                ask = Ask(
                    store_id=held.store_id,
                    instance=b"i" * 16,
                    nonce=b"n" * 32,
                    kem=b"k" * 1216,
                    signing=b"e" * 32,
                    settings=SETTINGS,
                    known=None,
                    level=level,
                    version="0.1.0",
                )
                if level >= held.level:
                    require_answerable(ask, held, SETTINGS)
                    continue
                with pytest.raises(
                    NoteRefusedError, match=f"level {level}.*level {held.level}"
                ) as refused:
                    require_answerable(ask, held, SETTINGS)
                assert refused.value.reason is NoteProblem.LEVEL
                assert "newer version" in refused.value.hint
