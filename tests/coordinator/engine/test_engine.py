"""The single writer: durability, publication, and answers to callers."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from support.samples.deployment import (
    NOW,
    FixedClock,
    crashing_engine,
    manifest,
    open_storage,
    running_engine,
    set_manifest,
    stored,
    upload,
    user,
)

from keyhouse.authority import check_index_mac, read_recovery_index
from keyhouse.base.errors import (
    BrokenError,
    ForbiddenError,
    UnauthenticatedError,
    UnavailableError,
    WrongPhaseError,
)
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Phase, StaleError, UploadSecrets
from keyhouse.coordinator.core.events import Uploaded
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.prepare import prepare_manifest, prepare_upload
from keyhouse.journal import Opened
from keyhouse.wire.secret_types import SecretType, UserSecret

A, B = b"a" * 16, b"b" * 16


async def test_state_2_keeps_nothing(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.phase is Phase.ACCEPTING_MANIFEST
        assert engine.view.revision == ""
        first_root = engine.view.state.keys.root_cert
    assert not (tmp_path / "data" / "sealed_key").exists()
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.phase is Phase.ACCEPTING_MANIFEST
        assert engine.view.state.keys.root_cert != first_root


async def test_everything_survives_a_clean_restart(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        await upload(engine, {"key0": A, "note": b"hello"})
        before, log = engine.view, engine.view.log.lines()
    async with running_engine(tmp_path / "data") as engine:
        after = engine.view
        assert isinstance(after.state, Running)
        assert after.state.keys == before.running.keys
        assert after.state.manifest == before.running.manifest
        assert after.state.signature == before.running.signature
        assert stored(after) == stored(before)
        assert after.log.lines() == log
        assert after.running.instance != before.running.instance


async def test_everything_answered_survives_without_a_clean_stop(tmp_path: Path) -> None:
    async with crashing_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        await upload(engine, {"key0": A})
    async with running_engine(tmp_path / "data") as engine:
        assert stored(engine.view)["key0"] == A
        assert len(engine.view.log) == 2


async def test_each_process_changes_the_revision_before_it_serves(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        first = engine.view.revision
    async with running_engine(tmp_path / "data") as engine:
        second = engine.view.revision
    epoch, sequence, chain = second.split(".")
    assert (epoch, len(chain)) == ("1", 16)
    assert int(sequence) == int(first.split(".")[1]) + 2  # the record of the start, and the leaf
    assert chain != first.split(".")[2]


async def test_a_refused_command_fails_alone_in_its_batch(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        before = engine.view.running

        def command(identity: bytes, name: str) -> UploadSecrets:
            value = prepare_upload(before, user("writer").der, {name: UserSecret(key=Secret(A))})
            return msgspec.structs.replace(value, identity=identity)

        answers = await asyncio.gather(
            engine.submit(command(user("writer").der, "key0")),
            engine.submit(command(user("reader").der, "key1")),
            engine.submit(command(b"unknown", "key1")),
            engine.submit(command(user("writer").der, "key2")),
            return_exceptions=True,
        )
        assert isinstance(answers[1], ForbiddenError)
        assert isinstance(answers[2], UnauthenticatedError)
        assert {"key0", "key2"} <= set(stored(engine.view))
        assert "key1" not in stored(engine.view)
        assert len(engine.view.log) == 3


async def test_many_writers_are_all_answered_and_kept(tmp_path: Path) -> None:
    values = {f"key{number}": bytes([number]) * 16 for number in range(200)}
    async with crashing_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest(200))
        views = await asyncio.gather(
            *(upload(engine, {name: value}) for name, value in values.items())
        )
        for view, (name, value) in zip(views, values.items(), strict=True):
            assert stored(view)[name] == value
    async with running_engine(tmp_path / "data") as engine:
        assert {name: stored(engine.view)[name] for name in values} == values


async def test_what_was_prepared_against_another_manifest_is_stale(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        prepared = prepare_upload(
            engine.view.running, user("writer").der, {"key0": UserSecret(key=Secret(A))}
        )
        other = msgspec.structs.replace(prepared, manifest=manifest(4))
        with pytest.raises(StaleError):
            await engine.submit(other)
        assert "key0" not in stored(engine.view)


async def test_what_was_prepared_for_another_root_is_stale(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "one") as one:
        assert not isinstance(one.view.state, Running)
        foreign = prepare_manifest(one.view.state, manifest(), now=NOW)
    async with running_engine(tmp_path / "two") as two:
        with pytest.raises(StaleError):
            await two.submit(foreign)
        assert two.view.phase is Phase.ACCEPTING_MANIFEST


async def test_of_two_first_manifests_one_wins(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        answers = await asyncio.gather(
            set_manifest(engine, manifest(1)),
            set_manifest(engine, manifest(2)),
            return_exceptions=True,
        )
        assert isinstance(answers[1], WrongPhaseError)
        assert engine.view.running.manifest == manifest(1)


async def test_a_caller_that_leaves_does_not_undo_its_change(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        leaving = asyncio.create_task(upload(engine, {"key0": A}))
        await asyncio.sleep(0)  # until the upload is submitted
        leaving.cancel()
        await upload(engine, {"key1": B})
        assert stored(engine.view)["key0"] == A


async def test_a_stopped_engine_takes_nothing_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        accepted = asyncio.create_task(upload(engine, {"key0": A}))
        await asyncio.sleep(0)
        engine.queue.stop()
        assert stored(await accepted)["key0"] == A
        with pytest.raises(UnavailableError, match="stopping"):
            await upload(engine, {"key1": B})


async def test_a_command_that_cannot_be_encoded_fails_alone(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        good = prepare_upload(
            engine.view.running, user("writer").der, {"key0": UserSecret(key=Secret(A))}
        )
        value = good.uploads[0].value
        broken = Uploaded("key1", SecretType.PLAIN, [value])  # type: ignore[arg-type]
        bad = msgspec.structs.replace(good, uploads=(broken,))
        answers = await asyncio.gather(
            engine.submit(bad), engine.submit(good), return_exceptions=True
        )
        assert isinstance(answers[0], BrokenError)
        assert stored(engine.view)["key0"] == A


async def test_disabled_sealing_leaves_nothing_on_disk(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest(SealMode="Disabled"))
        await upload(engine, {"key0": A})
        assert stored(engine.view)["key0"] == A
        assert engine.view.revision.startswith("1.")
    assert not (tmp_path / "data" / "sealed_key").exists()
    assert not (tmp_path / "data" / "journal.db").exists()
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.phase is Phase.ACCEPTING_MANIFEST


async def test_a_lost_sealed_key_leads_to_recovery_mode(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
        old_root = engine.view.state.keys.root_cert
    (tmp_path / "data" / "sealed_key").unlink()
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.phase is Phase.RECOVERY
        assert engine.view.state.keys.root_cert != old_root


async def test_another_machine_leads_to_recovery_mode(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
    other = Secret(b"another machine's sealing secret")
    async with running_engine(tmp_path / "data", machine=other) as engine:
        assert engine.view.phase is Phase.RECOVERY
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.phase is Phase.RUNNING


async def test_a_new_manifest_in_recovery_mode_moves_the_old_state_aside(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_engine(data) as engine:
        await set_manifest(engine, manifest())
        await upload(engine, {"key0": A})
    old_journal = (data / "journal.db").read_bytes()
    (data / "sealed_key").unlink()
    async with running_engine(data) as engine:
        temporary = engine.view.state.keys.root_cert
        await set_manifest(engine, manifest(4))
        assert engine.view.state.keys.root_cert == temporary
        assert "key0" not in stored(engine.view)
        assert len(engine.view.log) == 1
    archived = list((data / "archive").glob("*/journal.db"))
    assert [path.read_bytes() for path in archived] == [old_journal]
    async with running_engine(data) as engine:
        assert engine.view.running.manifest == manifest(4)


async def test_the_journal_is_compacted_and_nothing_is_lost(tmp_path: Path) -> None:
    data, big = tmp_path / "data", b"x" * 100_000
    async with running_engine(data) as engine:
        await set_manifest(engine, manifest())
        for number in range(30):
            await upload(engine, {"note": big + bytes([number])})
        epoch = int(engine.view.revision.split(".")[0])
        log = engine.view.log.lines()
    assert epoch > 1
    assert len(log) == 31
    async with running_engine(data) as engine:
        assert stored(engine.view)["note"] == big + bytes([29])
        assert engine.view.log.lines() == log


async def test_a_journal_in_memory_is_compacted_as_well(tmp_path: Path) -> None:
    big = b"x" * 100_000
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest(SealMode="Disabled"))
        for number in range(30):
            await upload(engine, {"note": big + bytes([number])})
            assert engine.writer.journal is not None
            assert engine.writer.journal.weight.since < 2_000_000  # memory stays bounded
        assert int(engine.view.revision.split(".")[0]) > 1
        assert stored(engine.view)["note"] == big + bytes([29])
        assert len(engine.view.log) == 31
    assert {each.name for each in (tmp_path / "data").iterdir()} == {"lock"}


async def test_journalled_time_never_runs_backwards(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, manifest())
        clock.time = NOW - 3600 * 1_000_000
        await upload(engine, {"key0": A})
        times = [json.loads(line)["time"] for line in engine.view.log.lines()]
    assert times == ["2027-01-15T08:00:00.000Z"] * 2


async def test_a_clock_a_year_ahead_is_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, manifest())
    ahead = FixedClock(NOW + 366 * 24 * 3600 * 1_000_000)
    with pytest.raises(BrokenError, match="journalled time"):
        async with running_engine(tmp_path / "data", ahead):
            pytest.fail("it must not start")


async def test_the_recovery_index_follows_the_epochs(tmp_path: Path) -> None:
    data, big = tmp_path / "data", b"x" * 100_000
    async with running_engine(data) as engine:
        await set_manifest(engine, manifest())
        root = engine.view.state.keys.root_cert
    assert await _indexed_epoch(data, root) == 1
    async with running_engine(data) as engine:
        for number in range(30):
            await upload(engine, {"note": big + bytes([number])})
    assert await _indexed_epoch(data, root) > 1


async def _indexed_epoch(data: Path, root: bytes) -> int:
    """Check index and MAC; return the epoch of journal and index."""
    storage = await open_storage(data)
    opened = await storage.load()
    assert isinstance(opened, Opened)
    sealed = read_recovery_index(opened.recovery_index)
    index = check_index_mac(sealed, opened.journal.index_mac_key(sealed.index.epoch))
    assert index.epoch == opened.journal.position.epoch
    assert (index.root_cert, index.store_id) == (root, opened.journal.store_id)
    await storage.close()
    return index.epoch


async def test_an_emptied_journal_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_engine(data) as engine:
        await set_manifest(engine, manifest())
    (data / "journal.db").write_bytes(b"")
    with pytest.raises(BrokenError, match=r"journal\.db .*empty"):
        async with running_engine(data):
            pytest.fail("it must not start")
    assert (data / "journal.db").read_bytes() == b""
