"""Planted files in the state directory: a plan for another store deletes no store.

A writer to the directory can empty it; nothing prevents this. Smaller changes must not delete a
store.
"""

import secrets
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.samples.state import (
    DEK,
    NOON_MICROSECONDS,
    OTHER_DEK,
    Image,
    Snapshots,
    contents,
    open_storage,
    state_of,
)

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.journal import DirectoryStorage, StoreDamagedError
from keyhouse.journal.directory.index_file import IndexFile
from keyhouse.journal.offline.archive import restore
from keyhouse.journal.offline.private_copy import private_copy

FILES = ("recovery_index", "sealed_key", "journal.db")
ARCHIVE = "20260301T120000Z-0123abcd"
Step = Callable[[str], None]
Do = Callable[[Path, Step], Awaitable[None]]


async def establish(path: Path, base: bytes = b"base", *, machine: str = "one") -> None:
    """Leave a stopped deployment in ``path``."""
    storage = await open_storage(path, machine=machine)
    await storage.load()
    await _set_up(storage, base)
    await storage.close()


async def _set_up(storage: DirectoryStorage, base: bytes, *, dek: Secret = DEK) -> None:
    await storage.establish(
        store_id=secrets.token_bytes(16),
        dek=dek,
        base=[base],
        policy="ProductKey",
        recovery_index=b"index of " + base,
    )


def plant(path: Path, plan: bytes) -> None:
    (path / "incoming").mkdir(mode=0o700)
    _write(path / "incoming" / "plan", plan)


def _write(file: Path, content: bytes) -> None:
    file.touch(0o600)
    file.write_bytes(content)


async def refused(path: Path, *names: str) -> None:
    """Require two refusals of a start with ``names`` in the error, without any change of files."""
    before = contents(path)
    for _ in range(2):
        with pytest.raises(StoreDamagedError) as told:
            await open_storage(path)
        for name in ("incoming/plan", *names):
            assert name in str(told.value)
        assert contents(path) == before


async def clear(path: Path, step: Step) -> None:
    storage = await open_storage(path, machine="two", step=step)
    await storage.load()
    await storage.archive()
    await storage.close()


async def replace(path: Path, step: Step) -> None:
    storage = await open_storage(path, machine="two", step=step)
    await storage.load()
    await _set_up(storage, b"new", dek=OTHER_DEK)
    await storage.close()


async def erase(path: Path, step: Step) -> None:
    storage = await open_storage(path, step=step)
    await storage.load()
    await storage.destroy(NOON_MICROSECONDS)
    await storage.close()


async def bring_back(path: Path, step: Step) -> None:
    (name,) = (each.name for each in (path / "archive").iterdir())
    await restore(path, name, step=step)


async def committed(path: Path, do: Do, kept: Path) -> list[Path]:
    """Return copies of ``path`` at each step of ``do`` after the commit and before the end."""
    snapshots = Snapshots(path, kept)
    await do(path, snapshots)
    return [copy for _, copy in snapshots.taken if (copy / "incoming" / "plan").exists()]


# --- planted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [False, True], ids=["sealed", "in recovery mode"])
@pytest.mark.parametrize(
    "plan",
    [
        b"erase\n",
        b"clear x\n",
        b"clear x of -\n",
        b"clear x of 00000000000000000000000000000000 1\n",
        b"replace x\n",
        b"restore journal.db x\n",
        b"restore recovery_index x of -\n",
        b"restore sealed_key x\n",
    ],
)
async def test_a_planted_plan_is_refused_and_the_store_stays(
    tmp_path: Path,
    plan: bytes,
    lost: bool,  # noqa: FBT001 a column of the table
) -> None:
    path = tmp_path / "state"
    await establish(path)
    if lost:
        (path / "sealed_key").unlink()
    expected = await state_of(path)
    plant(path, plan)
    if plan == b"replace x\n":  # all files are in place already
        assert await state_of(path) == expected
        return
    await refused(path, plan.split()[0].decode())
    shutil.rmtree(path / "incoming")
    assert await state_of(path) == expected


@pytest.mark.parametrize("do", [clear, replace, erase])
async def test_a_plan_that_was_copied_from_another_directory_is_refused(
    tmp_path: Path, do: Do
) -> None:
    path, other = tmp_path / "state", tmp_path / "other"
    await establish(path)
    await establish(other)
    first, *_ = await committed(other, do, tmp_path / "kept")
    theirs = IndexFile.decode((first / "recovery_index").read_bytes(), name="")
    ours = IndexFile.decode((path / "recovery_index").read_bytes(), name="")
    shutil.copytree(first / "incoming", path / "incoming")
    await refused(path, theirs.store_id.hex(), ours.store_id.hex())
    shutil.rmtree(path / "incoming")
    assert await state_of(path) == (b"base",)


@pytest.mark.parametrize("do", [clear, replace, erase])
async def test_a_plan_of_an_earlier_epoch_of_the_same_store_is_refused(
    tmp_path: Path, do: Do
) -> None:
    path, before = tmp_path / "state", tmp_path / "before"
    await establish(path)
    shutil.copytree(path, before)
    first, *_ = await committed(before, do, tmp_path / "kept")
    storage = await open_storage(path)
    await storage.load()
    await storage.begin_epoch([b"later"])
    await storage.close()
    shutil.copytree(first / "incoming", path / "incoming")
    await refused(path, "epoch 1", "epoch 2")
    shutil.rmtree(path / "incoming")
    assert await state_of(path) == (b"later",)


async def test_a_new_store_made_for_an_empty_directory_replaces_none(tmp_path: Path) -> None:
    path, empty = tmp_path / "state", tmp_path / "empty"
    await establish(path)
    empty.mkdir(mode=0o700)
    first, *_ = await committed(empty, replace, tmp_path / "kept")
    shutil.copytree(first / "incoming", path / "incoming")
    await refused(path, "no known store")


async def test_a_copy_that_is_looked_at_is_refused_like_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path)
    plant(path, b"clear x\n")
    with pytest.raises(StoreDamagedError, match="incoming/plan"), private_copy(path):
        raise AssertionError


@pytest.mark.parametrize("content", [b"", b"erase\n", b"x" * 5000])
@pytest.mark.parametrize(
    "name",
    [
        *("lock", "tombstone", "sealed_key.tmp", "recovery_index.tmp", "recovery_index.next"),
        *("journal.db.tmp", "journal.db-wal", "journal.db-shm", "journal.db-journal", "plan"),
        *("archive", "incoming", "incoming.tmp", "incoming/sealed_key", "incoming/journal.db"),
        *("incoming/tombstone", "incoming/plan", "incoming/plan.tmp", "incoming.tmp/plan"),
        *("incoming.tmp/journal.db", "archive/x/journal.db", "archive/x/plan", "simulation"),
    ],
)
async def test_no_further_file_makes_a_start_drop_the_store(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """A start refuses or ignores each name; after the removal, a start succeeds."""
    path = tmp_path / "state"
    await establish(path)
    planted = path / name
    planted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    planted.parent.parent.chmod(0o700)
    planted.unlink(missing_ok=True)
    _write(planted, content)
    told = ""
    try:
        assert await state_of(path) == (b"base",)
    except KeyhouseError as error:
        told = str(error)
    assert not told or Path(name).name.removesuffix(".tmp") in told or Path(name).parts[0] in told
    for each in (planted, path / "incoming"):
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink(missing_ok=True)
    assert await state_of(path) == (b"base",)


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "machine", "expected"),
    [
        (clear, "two", "fresh"),
        (replace, "two", (b"new",)),
        (erase, "one", "ended"),
        (bring_back, "one", (b"base",)),
    ],
    ids=["clear", "replace", "erase", "restore"],
)
async def test_a_crash_at_each_step_of_what_finishes_a_crash(
    tmp_path: Path, do: Do, machine: str, expected: object
) -> None:
    """A committed change completes, even after interruptions of completing starts."""
    path = tmp_path / "state"
    await establish(path)
    if do is bring_back:
        await establish(path, b"present", machine="two")
    copies = await committed(path, do, tmp_path / "kept")
    assert len(copies) > 3
    known: set[Image] = set()
    for number, copy in enumerate(copies):
        inner = Snapshots(copy, tmp_path / f"inner-{number}", known)
        await (await open_storage(copy, machine=machine, step=inner)).close()
        for _, image in inner.taken:
            with private_copy(image):  # a read completes as well
                pass
            assert await state_of(image, machine=machine) == expected


def in_old_format(copy: Path, *, bound: bool = False) -> None:
    """Change a committed replacement to the format of a version with renamed directories.

    ``bound``: its plans name an owner; plans of still older versions do not.
    """
    plan = copy / "incoming" / "plan"
    text, _, source = plan.read_text().removesuffix("\n").partition(" from ")
    old, _, owner = text.partition(" of ")
    assert owner
    plan.write_text((text if bound else old) + "\n")
    if source:
        for name in FILES:
            (copy / "archive" / source / name).rename(copy / "incoming" / name)
        (copy / "archive" / source).rmdir()


def old_steps(
    copy: Path, kept: Path, *, arriving: tuple[str, ...], bound: bool = False
) -> list[Path]:
    """Return copies after a crash at each step of an older version."""
    plan = (copy / "incoming" / "plan").read_text()
    archive = plan.partition(" of ")[0].split()[-1]
    left: list[Path] = []

    def keep() -> None:
        left.append(kept / str(len(left)))
        shutil.copytree(copy, left[-1])

    keep()
    for folder in (copy / "archive", copy / "archive" / archive):
        folder.mkdir(0o700, exist_ok=True)
    steps = [(name, each) for name in FILES for each in ("leaves", "comes")]
    if bound:  # the index moves out last, before any new file moves in
        order = ("sealed_key", "journal.db", "recovery_index")
        steps = [(name, "leaves") for name in order] + [(name, "comes") for name in FILES]
    for name, what in steps:
        if what == "leaves":
            (copy / name).rename(copy / "archive" / archive / name)
            keep()
        elif name in arriving:
            (copy / "incoming" / name).rename(copy / name)
            keep()
    return left


@pytest.mark.parametrize("bound", [True, False], ids=["with owner", "without"])
@pytest.mark.parametrize(
    ("do", "machine", "expected"),
    [(replace, "two", (b"new",)), (bring_back, "one", (b"base",))],
    ids=["replace", "restore"],
)
async def test_what_an_older_version_left_half_done_is_finished(
    tmp_path: Path,
    do: Do,
    machine: str,
    expected: object,
    bound: bool,  # noqa: FBT001 a column of the table
) -> None:
    path = tmp_path / "state"
    await establish(path)
    if do is bring_back:
        await establish(path, b"present", machine="two")
    first, *_ = await committed(path, do, tmp_path / "kept")
    in_old_format(first, bound=bound)
    known: set[Image] = set()
    for copy in old_steps(first, tmp_path / "steps", arriving=FILES, bound=bound):
        inner = Snapshots(copy, tmp_path / "inner" / copy.name, known)
        await (await open_storage(copy, machine=machine, step=inner)).close()
        for image in [copy, *(each for _, each in inner.taken)]:
            assert await state_of(image, machine=machine) == expected


async def test_clearing_that_an_older_version_left_is_finished_once_nothing_is_there(
    tmp_path: Path,
) -> None:
    """Anybody could plant such a short plan, so the plan alone deletes nothing."""
    path = tmp_path / "state"
    await establish(path)
    first, *_ = await committed(path, clear, tmp_path / "kept")
    in_old_format(first)
    *begun, done = old_steps(first, tmp_path / "steps", arriving=())
    for copy in begun:
        await refused(copy, "move incoming/ away")
        for name in FILES:  # the hint also says to remove these files
            (copy / name).unlink(missing_ok=True)
        assert await state_of(copy, machine="two") == "fresh"
    assert await state_of(done, machine="two") == "fresh"
