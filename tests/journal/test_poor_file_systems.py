"""The state directory on a file system with the limits of Gramine's.

It renames no directories, ignores syncs of directories, makes no links, and sets no times.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest
from support.samples.state import DEK, NOON_MICROSECONDS, OTHER_DEK, STORE_ID, open_storage

from keyhouse.base.errors import KeyhouseError, NotFoundError
from keyhouse.journal import DirectoryStorage, Fresh, Locked, Opened, StoreDamagedError
from keyhouse.journal.offline.archive import restore
from keyhouse.journal.offline.backup import make_backup, restore_backup


def _cannot(*_words: object, **_more: object) -> Never:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names after renames that are not yet durable."""
    names: set[str] = set()
    real_rename, real_fsync, real_fchmod = os.rename, os.fsync, os.fchmod

    def rename(source: Path, target: Path) -> None:
        if stat.S_ISDIR(os.lstat(source).st_mode):
            _cannot()
        real_rename(source, target)
        names.discard(os.path.realpath(source))
        names.add(os.path.realpath(target))

    def fsync(handle: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            real_fsync(handle)
            names.discard(str(Path(f"/proc/self/fd/{handle}").readlink()))

    def fchmod(handle: int, mode: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            _cannot()
        real_fchmod(handle, mode)

    for name, call in (("rename", rename), ("fsync", fsync), ("fchmod", fchmod)):
        monkeypatch.setattr(os, name, call)
    for name in ("replace", "link", "utime", "memfd_create"):
        monkeypatch.setattr(os, name, _cannot)
    return names


async def _establish(storage: DirectoryStorage, base: bytes) -> None:
    await storage.establish(
        store_id=STORE_ID,
        dek=DEK,
        base=[base],
        policy="ProductKey",
        recovery_index=b"index",
    )


async def _leave(path: Path, base: bytes, *, machine: str = "one") -> None:
    storage = await open_storage(path, machine=machine)
    await storage.load()
    await _establish(storage, base)
    await storage.close()


async def _base(path: Path, *, machine: str = "one") -> object:
    storage = await open_storage(path, machine=machine)
    try:
        what = await storage.load()
    finally:
        await storage.close()
    return what.replay.base[0] if isinstance(what, Opened) else type(what)


async def test_stores_come_go_and_come_back_without_renaming_or_syncing_a_directory(
    tmp_path: Path, unsynced: set[str]
) -> None:
    path = tmp_path / "state"
    await _leave(path, b"first")
    assert not unsynced
    storage = await open_storage(path)
    await storage.load()
    await storage.begin_epoch(
        [b"second"], dek=OTHER_DEK, policy="UniqueKey", recovery_index=b"more"
    )
    await storage.write_head()
    await storage.close()
    assert not unsynced
    await _leave(path, b"another", machine="two")
    assert not unsynced
    assert await _base(path) is Locked
    (name,) = (each.name for each in (path / "archive").iterdir())
    await restore(path, name)
    assert not unsynced
    assert await _base(path) == b"second"
    storage = await open_storage(path)
    await storage.load()
    await storage.destroy(NOON_MICROSECONDS)
    await storage.close()
    assert not unsynced
    assert await _base(path) is Fresh


async def test_a_backup_is_made_and_restored_there(tmp_path: Path, unsynced: set[str]) -> None:
    async def unchecked(_place: Path) -> None: ...

    path, backup, other = (tmp_path / name for name in ("state", "backup", "other"))
    await _leave(path, b"base")
    await make_backup(path, backup, unchecked)
    assert not unsynced
    await restore_backup(backup, other, unchecked)
    assert not unsynced
    assert await _base(other) == b"base"


def _lose_mark(backup: Path) -> None:
    (backup / "SHA256SUMS").unlink()


def _lose_file(backup: Path) -> None:
    (backup / "journal.db").unlink()


@pytest.mark.parametrize(
    ("lose", "error", "named"),
    [(_lose_mark, NotFoundError, "SHA256SUMS"), (_lose_file, StoreDamagedError, "journal.db")],
)
async def test_a_backup_that_was_not_finished_is_none(
    tmp_path: Path, lose: Callable[[Path], None], error: type[KeyhouseError], named: str
) -> None:
    async def unchecked(_place: Path) -> None: ...

    path, backup = tmp_path / "state", tmp_path / "backup"
    await _leave(path, b"base")
    await make_backup(path, backup, unchecked)
    lose(backup)
    with pytest.raises(error, match=named):
        await restore_backup(backup, tmp_path / "other", unchecked)


async def test_what_was_prepared_and_not_committed_is_removed_at_each_step(tmp_path: Path) -> None:
    """The mark ``plan.new`` is removed last: files without this mark are damage, and refused."""
    path = tmp_path / "state"
    await _leave(path, b"base")
    for names in (
        [],
        ["plan.new.tmp"],
        ["plan.new"],
        ["plan.new", "plan.new.tmp", "journal.db", "journal.db-wal", "recovery_index"],
        ["plan.new", "tombstone", "tombstone.tmp"],
    ):
        shutil.rmtree(path / "incoming", ignore_errors=True)
        (path / "incoming").mkdir(mode=0o700)
        for name in names:
            (path / "incoming" / name).touch(mode=0o600)
        steps: list[str] = []
        await (await open_storage(path, step=steps.append)).close()
        removed = [step.split()[1] for step in steps if step.startswith("remove ")]
        assert not (path / "incoming").exists()
        assert "plan.new" not in removed[:-2]
        assert await _base(path) == b"base"
