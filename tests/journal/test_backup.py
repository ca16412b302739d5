"""Restored backups: complete or absent after any interruption."""

import secrets
from pathlib import Path

import pytest
from support.samples.state import DEK, NOON_MICROSECONDS, Snapshots, open_storage, state_of
from support.watcher import Noted

from keyhouse.cli.output.progress_bar import watched_by
from keyhouse.journal import Locked, StoreDamagedError
from keyhouse.journal.offline.backup import NotEmptyError, make_backup, restore_backup
from keyhouse.journal.offline.private_copy import private_copy

WHOLE = (b"base", b"event")


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


async def trust(_place: Path) -> None:
    """Accept all files."""


async def refuse(_place: Path) -> None:
    raise StoreDamagedError("they are not to be used")


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """The directory of a stopped store."""
    storage = await open_storage(tmp_path / "store")
    await storage.load()
    journal = await storage.establish(
        store_id=secrets.token_bytes(16),
        dek=DEK,
        base=WHOLE[:1],
        policy="ProductKey",
        recovery_index=b"index",
    )
    await journal.append(WHOLE[1:])
    await storage.write_head()
    await storage.close()
    return tmp_path / "store"


@pytest.fixture
async def backup(store: Path, tmp_path: Path) -> Path:
    await make_backup(store, tmp_path / "backup", trust)
    return tmp_path / "backup"


async def test_a_crash_at_any_step_of_a_restore_leaves_all_or_nothing(
    backup: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new"
    snapshots = Snapshots(path, tmp_path / "kept")

    await restore_backup(backup, path, trust, step=snapshots)

    seen = [await state_of(copy) for _, copy in [*snapshots.taken, ("done", path)]]
    turn = seen.index(WHOLE)
    assert 0 < turn < len(seen) - 1
    assert seen == ["fresh"] * turn + [WHOLE] * (len(seen) - turn)
    assert names(path) == ["journal.db", "lock", "recovery_index", "sealed_key"]


async def test_a_restore_that_is_refused_can_be_done_again(backup: Path, tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(StoreDamagedError, match="not to be used"):
        await restore_backup(backup, path, refuse)
    assert names(path) == ["lock"]
    await restore_backup(backup, path, trust)
    assert await state_of(path) == WHOLE
    with pytest.raises(NotEmptyError, match=r"journal\.db"):
        await restore_backup(backup, path, trust)


async def test_a_backup_that_is_refused_leaves_nothing(store: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreDamagedError, match="not to be used"):
        await make_backup(store, tmp_path / "backup", refuse)
    assert names(tmp_path) == ["store"]


async def test_backups_and_states_may_be_in_a_directory_that_is_a_link(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "public").symlink_to("private")
    backup = tmp_path / "public" / "backup"

    await make_backup(store, backup, trust)
    await restore_backup(backup, tmp_path / "public" / "new", trust)

    assert await state_of(tmp_path / "private" / "new") == WHOLE


async def test_a_backup_without_a_sealed_key_comes_back_locked(store: Path, tmp_path: Path) -> None:
    (store / "sealed_key").unlink()
    await make_backup(store, tmp_path / "backup", trust)
    await restore_backup(tmp_path / "backup", tmp_path / "new", trust)
    storage = await open_storage(tmp_path / "new")
    assert isinstance(await storage.load(), Locked)
    recovered = await storage.recover(DEK)
    assert recovered.replay.base + recovered.replay.events == WHOLE
    await storage.close()


async def test_nothing_is_restored_where_a_store_was_ended(backup: Path, tmp_path: Path) -> None:
    storage = await open_storage(tmp_path / "new")
    await storage.load()
    await storage.establish(
        store_id=secrets.token_bytes(16), dek=DEK, base=WHOLE[:1], policy="ProductKey"
    )
    await storage.destroy(NOON_MICROSECONDS)
    await storage.close()
    with pytest.raises(NotEmptyError, match="tombstone"):
        await restore_backup(backup, tmp_path / "new", trust)


async def test_backup_restore_and_copy_tell_how_far_they_are(store: Path, tmp_path: Path) -> None:
    noted = Noted()
    with watched_by(noted):
        await make_backup(store, tmp_path / "backup", trust)
        await restore_backup(tmp_path / "backup", tmp_path / "restored", trust)
        with private_copy(tmp_path / "restored"):
            pass

    assert noted.names == ["copying", "checking records"] * 2 + ["copying"]
    assert (noted.parts[1], noted.parts[0][1] > 0) == (("checking records", 2), True)
