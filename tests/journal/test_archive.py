"""Archived stores: listed, read, put back."""

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.samples.state import (
    DEK,
    NOON,
    OTHER_DEK,
    Image,
    Snapshots,
    contents,
    open_storage,
    state_of,
)

from keyhouse.base.errors import KeyhouseError, NotFoundError
from keyhouse.journal import Fresh, Locked, Opened, StoreDamagedError
from keyhouse.journal.directory.acquire import unused
from keyhouse.journal.offline.archive import NotRestorableError, list_stores, restore
from keyhouse.journal.offline.inspect import see_journal
from keyhouse.journal.offline.private_copy import private_copy
from keyhouse.journal.store.protocol import StoreLockedError

OLD, NEW = (b"old base", b"old event"), (b"new base", b"new event")


async def establish(path: Path, payloads: tuple[bytes, bytes], *, machine: str = "one") -> None:
    """Set up a store of a base and an event; an existing store is moved aside."""
    storage = await open_storage(path, machine=machine)
    await storage.load()
    journal = await storage.establish(
        store_id=secrets.token_bytes(16),
        dek=OTHER_DEK if payloads == NEW else DEK,
        base=payloads[:1],
        policy="ProductKey",
        recovery_index=b"index of " + payloads[0],
    )
    await journal.append(payloads[1:])
    await storage.write_head()
    await storage.close()


async def two_stores(path: Path, *, with_key: bool = True) -> str:
    """Leave NEW in place and OLD in the archive; return the name of OLD there."""
    await establish(path, OLD)
    if not with_key:
        (path / "sealed_key").unlink()
    await establish(path, NEW, machine="two")
    (name,) = archived(path)
    return name


def archived(path: Path) -> list[str]:
    return sorted(each.name for each in (path / "archive").iterdir())


async def put_back(path: Path, name: str, step: Callable[[str], None] = lambda _: None) -> str:
    return await restore(path, name, now=lambda: NOON, step=step)


async def test_a_restored_store_is_opened_and_the_other_is_in_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "state"
    name = await two_stores(path)
    assert (await state_of(path, "one"), await state_of(path, "two")) == ("locked", NEW)

    aside = await put_back(path, name)

    assert archived(path) == [aside]
    assert (await state_of(path, "one"), await state_of(path, "two")) == (OLD, "locked")
    assert await put_back(path, aside) in archived(path)
    assert (await state_of(path, "one"), await state_of(path, "two")) == ("locked", NEW)


async def test_a_store_without_its_sealed_key_comes_back_locked(tmp_path: Path) -> None:
    """The sealed key of the present store must not stay beside the restored journal."""
    path = tmp_path / "state"
    name = await two_stores(path, with_key=False)

    aside = await put_back(path, name)

    assert not (path / "sealed_key").exists()
    assert (path / "archive" / aside / "sealed_key").exists()
    storage = await open_storage(path)
    assert isinstance(await storage.load(), Locked)
    recovered = await storage.recover(DEK)
    assert recovered.replay.base + recovered.replay.events == OLD
    await storage.close()


async def test_a_store_is_restored_where_none_is_in_place(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path, OLD)
    storage = await open_storage(path, machine="two")
    assert isinstance(await storage.load(), Locked)
    await storage.archive()
    assert await storage.load() == Fresh()
    await storage.close()
    (name,) = archived(path)

    assert await put_back(path, name) == ""

    assert archived(path) == []
    assert await state_of(path, "one") == OLD


@pytest.mark.parametrize("with_key", [True, False], ids=["sealed", "without sealed_key"])
async def test_a_crash_at_any_step_of_a_restore_leaves_one_store_whole(
    tmp_path: Path,
    with_key: bool,  # noqa: FBT001 a column of the table
) -> None:
    path = tmp_path / "state"
    name = await two_stores(path, with_key=with_key)
    snapshots = Snapshots(path, tmp_path / "kept")

    await put_back(path, name, snapshots)

    seen = []
    for step, copy in [*snapshots.taken, ("done", path)]:
        state = (await state_of(copy, "one"), await state_of(copy, "two"))
        assert len(archived(copy)) == 1, step
        home_files = {each.name for each in copy.iterdir()}
        assert not home_files & {"incoming", "incoming.tmp"}, step
        seen.append(state)
    before, after = ("locked", NEW), (OLD if with_key else "locked", "locked")
    turn = seen.index(after)
    assert 0 < turn < len(seen) - 1
    assert seen == [before] * turn + [after] * (len(seen) - turn)


async def test_a_crash_while_a_restore_is_finished_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state"
    name = await two_stores(path, with_key=False)
    snapshots = Snapshots(path, tmp_path / "kept")
    await put_back(path, name, snapshots)
    committed = [copy for _, copy in snapshots.taken if (copy / "incoming" / "plan").exists()]
    assert len(committed) > 5
    known: set[Image] = set()
    for number, copy in enumerate(committed):
        inner = Snapshots(copy, tmp_path / f"inner-{number}", known)
        await (await open_storage(copy, step=inner)).close()
        for _, image in inner.taken:
            assert await state_of(image, "one") == "locked"
            assert not (image / "sealed_key").exists()
            (aside,) = archived(image)
            assert (image / "archive" / aside / "sealed_key").exists()


async def test_a_store_of_a_killed_process_comes_back_with_its_last_records(
    tmp_path: Path,
) -> None:
    """The last records are in the WAL; a restore merges the WAL before the move."""
    path = tmp_path / "state"
    await establish(path, OLD)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    await what.journal.append([b"last"])
    shutil.copytree(path, tmp_path / "killed")
    await storage.close()
    killed = tmp_path / "killed"
    assert (killed / "journal.db-wal").stat().st_size
    move_aside(killed)

    await put_back(killed, "20260101T000000Z-killed")

    assert await state_of(killed, "one") == (*OLD, b"last")


def move_aside(path: Path) -> None:
    """Move a store aside unchanged, with the WAL."""
    place = path / "archive" / "20260101T000000Z-killed"
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    for name in ("sealed_key", "recovery_index", "journal.db", "journal.db-wal"):
        (path / name).rename(place / name)


@pytest.mark.parametrize("name", ["", "..", "../state", "a/b", "none", "x" * 65])
async def test_names_of_no_archived_store_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state"
    known = await two_stores(path)
    before = contents(path)
    with pytest.raises(NotFoundError, match=known):
        await put_back(path, name)
    assert contents(path) == before


async def test_a_damaged_archived_store_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "state"
    place = path / "archive" / await two_stores(path)
    good = contents(place)

    def spoil(name: str, content: bytes | None) -> None:
        for each, was in good.items():
            (place / each).write_bytes(was)
            (place / each).chmod(0o600)
        if content is None:
            (place / name).unlink()
        else:
            (place / name).write_bytes(content)
            (place / name).chmod(0o600)

    for name, content, error in (
        ("sealed_key", b"x", StoreDamagedError),
        ("sealed_key", (path / "sealed_key").read_bytes(), StoreDamagedError),
        ("recovery_index", None, StoreDamagedError),
        ("recovery_index", (path / "recovery_index").read_bytes(), StoreDamagedError),
        ("journal.db", None, NotRestorableError),
        ("journal.db", b"", NotRestorableError),
        ("journal.db", good["journal.db"][:5000], StoreDamagedError),
        ("journal.db-journal", b"", StoreDamagedError),
        ("notes.txt", b"mine", NotRestorableError),
    ):
        spoil(name, content)
        with pytest.raises(error):
            await put_back(path, place.name)
        assert await state_of(path, "two") == NEW
        if name not in good:
            (place / name).unlink()
    spoil("recovery_index", good["recovery_index"])
    await put_back(path, place.name)
    assert await state_of(path, "one") == OLD


async def test_a_directory_in_use_is_neither_restored_nor_copied(tmp_path: Path) -> None:
    path = tmp_path / "state"
    name = await two_stores(path)
    storage = await open_storage(path, machine="two")
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()}"):
        await put_back(path, name)
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()}"), private_copy(path):
        raise AssertionError
    await storage.close()


async def test_a_coordinator_does_not_start_while_its_directory_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await two_stores(path)
    with unused(path), pytest.raises(StoreLockedError, match=str(os.getpid())):
        await open_storage(path)
    with private_copy(path):  # reads happen in the copy; the directory is free again
        assert await state_of(path, "two") == NEW


async def test_looking_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await two_stores(path)
    before = contents(path)
    listed = list_stores(path)
    with private_copy(path) as copy:
        seen = await see_journal(copy)
        assert copy.stat().st_mode & 0o777 == 0o700
    assert contents(path) == before
    assert not copy.exists()
    assert seen is not None
    assert listed[0].store_id == seen.store_id.hex()


async def test_the_chain_can_be_computed_without_the_key(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path, OLD)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    await what.journal.append([b"%d" % number for number in range(2500)])
    position = what.journal.position
    await storage.close()

    seen = await see_journal(path)

    assert seen is not None
    assert (seen.position, seen.records, seen.events) == (position, 2502, 2501)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM record WHERE sequence = 2", "record 2"),
        ("UPDATE record SET nonce = x'00' WHERE sequence = 2", "record 2"),
        ("UPDATE record SET sequence = 9 WHERE sequence = 3", "record 3"),
        ("UPDATE record SET header = (SELECT header FROM record WHERE sequence = 1)", "record 2"),
        ("DELETE FROM record", "within the base"),
        ("UPDATE epoch SET first = 2", "first record of the epoch"),
    ],
)
async def test_records_that_are_not_in_order_are_seen_without_the_key(
    tmp_path: Path, statement: str, named: str
) -> None:
    import sqlite3

    path = tmp_path / "state"
    await establish(path, OLD)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    await what.journal.append([b"more"])
    await storage.close()
    with sqlite3.connect(path / "journal.db") as database:
        database.execute(statement)
    database.close()

    with pytest.raises(StoreDamagedError, match=named):
        await see_journal(path)


async def test_a_list_tells_what_each_store_is_even_if_damaged(tmp_path: Path) -> None:
    path = tmp_path / "state"
    name = await two_stores(path)
    present, old = list_stores(path)
    assert (present.name, old.name) == ("", name)
    assert (old.epoch, old.platform_kind, old.policy) == (1, "simulation", "ProductKey")
    assert name.endswith(old.store_id[:8])
    assert old.size > 4096
    (path / "archive" / name / "sealed_key").write_bytes(b"damaged")
    (path / "archive" / name / "recovery_index").write_bytes(b"damaged")
    assert list_stores(path)[1].problem == "sealed_key is damaged; recovery_index is damaged"


async def test_a_directory_that_others_can_reach_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path, OLD)
    path.chmod(0o750)
    with pytest.raises(KeyhouseError, match="0750"):
        list_stores(path)
    with pytest.raises(KeyhouseError, match="0750"), private_copy(path):
        raise AssertionError


@pytest.mark.parametrize(
    "plan",
    [
        b"restore journal.db ../../etc\n",
        b"restore a\n",
        b"restore  a\n",
        b"restore other a\n",
        b"restore journal.db journal.db\n",
        b"restore journal.db a",
        b"restore journal.db recovery_index sealed_key journal.db a\n",
    ],
)
async def test_a_changed_plan_of_a_restore_is_refused(tmp_path: Path, plan: bytes) -> None:
    path = tmp_path / "state"
    await establish(path, OLD)
    (path / "incoming").mkdir(mode=0o700)
    (path / "incoming" / "plan").write_bytes(plan)
    (path / "incoming" / "plan").chmod(0o600)
    before = contents(path)
    with pytest.raises(StoreDamagedError, match="plan"):
        await open_storage(path)
    assert contents(path) == before
