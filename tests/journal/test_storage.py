"""The state directory: the result of a start, and the files after a crash."""

# ruff: noqa: FBT001 - short blocking calls, parameters of tables

import asyncio
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.samples.state import (
    DEK,
    NOON_MICROSECONDS,
    OTHER_DEK,
    STORE_ID,
    Image,
    Snapshots,
    open_storage,
)

from keyhouse.base.errors import BrokenError, KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.journal import (
    Continuation,
    DirectoryStorage,
    Fresh,
    Journal,
    Locked,
    MemoryStore,
    Opened,
    OutcomeUnknownError,
    Position,
    Replay,
    RolledBackError,
    StoreDamagedError,
    Tombstone,
    WrongKeyError,
)
from keyhouse.journal.directory.disk import InsecureFileError
from keyhouse.journal.directory.load_result import (
    MixedDeploymentsError,
    StoreEndedError,
    WrongPlatformError,
)
from keyhouse.journal.epoch_reader import StoreEmptyError
from keyhouse.journal.store.protocol import StoreLockedError, StoreNewerError
from keyhouse.journal.store.sqlite import SqliteStore

FILES = ("sealed_key", "recovery_index", "journal.db")


def fresh_id() -> bytes:
    return secrets.token_bytes(16)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


async def establish(
    path: Path,
    *,
    base: bytes = b"base",
    index: bytes = b"index",
    events: int = 0,
    dek: Secret = DEK,
) -> None:
    """Leave a stopped deployment in ``path``."""
    storage = await open_storage(path)
    journal = await storage.establish(
        store_id=fresh_id(), dek=dek, base=[base], policy="ProductKey", recovery_index=index
    )
    for number in range(events):
        await journal.append([b"event %d" % number])
    await storage.write_head()
    await storage.close()


async def found(
    path: Path, *, machine: str = "one", platform_kind: str = "simulation"
) -> Fresh | Locked | Opened:
    """Start on ``path``, and stop; return the result of the start."""
    storage = await open_storage(path, machine=machine, platform_kind=platform_kind)
    try:
        return await storage.load()
    finally:
        await storage.close()


def secrets_in(path: Path) -> list[str]:
    """Return the names in ``path`` that may have content of a store, except a tombstone."""
    return [name for name in names(path) if name not in {"lock", "tombstone"}]


async def opened(path: Path) -> Opened:
    what = await found(path)
    assert isinstance(what, Opened)
    return what


async def test_nothing_at_all_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert await found(path) == Fresh()
    assert path.stat().st_mode & 0o777 == 0o700
    assert await found(path) == Fresh()


async def test_what_was_established_is_opened_again(tmp_path: Path) -> None:
    await establish(tmp_path / "state", events=3)
    what = await opened(tmp_path / "state")
    assert what.replay == Replay((b"base",), (b"event 0", b"event 1", b"event 2"))
    assert (what.policy, what.recovery_index) == ("ProductKey", b"index")
    modes = {name: (tmp_path / "state" / name).stat().st_mode & 0o777 for name in FILES}
    assert set(modes.values()) == {0o600}


async def test_a_second_load_reads_everything_again(tmp_path: Path) -> None:
    storage = await open_storage(tmp_path / "state")
    journal = await storage.establish(
        store_id=fresh_id(), dek=DEK, base=[b"base"], policy="UniqueKey"
    )
    await journal.append([b"event"])
    again = await storage.load()
    assert isinstance(again, Opened)
    assert again.replay.events == (b"event",)
    assert again.policy == "UniqueKey"
    await again.journal.append([b"more"])
    await storage.close()


async def test_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    storage = await open_storage(tmp_path / "state")
    await storage.establish(store_id=fresh_id(), dek=DEK, base=[b"base"], policy="ProductKey")
    for attempt in (
        storage.establish(store_id=fresh_id(), dek=DEK, base=[b"base"], policy="ProductKey"),
        storage.archive(),
        storage.recover(DEK),
        storage.relock(),
    ):
        with pytest.raises(BrokenError, match="store is open"):
            await attempt
    await storage.close()
    await storage.close()  # without effect


async def test_a_base_that_fails_leaves_a_fresh_directory(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"one"
        raise LookupError

    storage = await open_storage(tmp_path / "state")
    with pytest.raises(LookupError):
        await storage.establish(store_id=fresh_id(), dek=DEK, base=failing(), policy="ProductKey")
    assert await storage.load() == Fresh()
    await storage.close()
    assert names(tmp_path / "state") == ["lock"]


# --- recovery ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["another machine", "sealed_key removed"])
async def test_a_key_that_cannot_be_unsealed_means_recovery(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state"
    await establish(path, events=2)
    machine = "one"
    if how == "another machine":
        machine = "two"
    else:
        (path / "sealed_key").unlink()
    storage = await open_storage(path, machine=machine)
    locked = await storage.load()
    assert isinstance(locked, Locked)
    assert (locked.epoch, locked.recovery_index) == (1, b"index")
    with pytest.raises(WrongKeyError):
        await storage.recover(OTHER_DEK)
    recovered = await storage.recover(DEK)
    assert recovered.replay.events == (b"event 0", b"event 1")
    assert recovered.journal.store_id == locked.store_id
    with pytest.raises(BrokenError, match="sealed"):
        await storage.write_head()
    await recovered.journal.append([b"recovered"])
    await storage.reseal("UniqueKey")
    await storage.close()
    what = await found(path, machine=machine)
    assert isinstance(what, Opened)
    assert what.policy == "UniqueKey"
    assert what.replay.events[-1] == b"recovered"


async def test_recovering_seals_nothing_before_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path)
    before = (path / "sealed_key").read_bytes()
    storage = await open_storage(path, machine="two")
    await storage.load()
    await storage.recover(DEK)
    await storage.close()
    assert (path / "sealed_key").read_bytes() == before
    assert isinstance(await found(path, machine="two"), Locked)


async def test_a_journal_that_is_taken_away_during_recovery_is_refused_by_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state"
    await establish(path)
    storage = await open_storage(path, machine="two")
    await storage.load()
    (path / "journal.db").unlink()
    with pytest.raises(StoreEmptyError, match=r"journal\.db is missing"):
        await storage.recover(DEK)
    await storage.close()
    assert not (path / "journal.db").exists()


@pytest.mark.parametrize("clear", [False, True], ids=["new manifest", "disabled"])
async def test_in_recovery_the_old_store_is_moved_aside(
    tmp_path: Path,
    clear: bool,
) -> None:
    path = tmp_path / "state"
    await establish(path, events=2)
    storage = await open_storage(path, machine="two")
    locked = await storage.load()
    assert isinstance(locked, Locked)
    if clear:
        await storage.archive()
        assert await storage.load() == Fresh()
    else:
        journal = await storage.establish(
            store_id=fresh_id(), dek=OTHER_DEK, base=[b"new"], policy="ProductKey"
        )
        assert journal.store_id != locked.store_id
    await storage.close()
    name = f"20260301T120000Z-{locked.store_id.hex()[:8]}"
    assert names(path / "archive") == [name]
    old = path / "archive" / name
    assert set(names(old)) == set(FILES)
    assert (await opened(old)).replay.events == (b"event 0", b"event 1")


async def test_two_stores_of_one_second_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for number in range(3):
        await establish(path, base=b"%d" % number)
        (path / "sealed_key").unlink()
    assert names(path / "archive") == [
        "20260301T120000Z-unknown",
        "20260301T120000Z-unknown-2",
    ]


# --- contradictions ----------------------------------------------------------------------------


async def test_another_platform_is_refused_by_name(tmp_path: Path) -> None:
    await establish(tmp_path / "state")
    with pytest.raises(WrongPlatformError, match=r"simulation, .*gramine"):
        await found(tmp_path / "state", platform_kind="gramine")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("machine", ["one", "two"])
async def test_a_file_of_another_deployment_is_refused_by_name(
    tmp_path: Path, name: str, machine: str
) -> None:
    await establish(tmp_path / "ours")
    await establish(tmp_path / "theirs", dek=OTHER_DEK)
    shutil.copy(tmp_path / "theirs" / name, tmp_path / "ours" / name)
    with pytest.raises(MixedDeploymentsError, match=f"{name}|journal.db"):
        await found(tmp_path / "ours", machine=machine)


@pytest.mark.parametrize(
    ("gone", "error", "named"),
    [
        (("journal.db",), StoreEmptyError, "journal.db is missing"),
        (("journal.db", "sealed_key"), StoreEmptyError, "recovery_index is there"),
        (("journal.db", "recovery_index"), StoreEmptyError, "sealed_key is there"),
        (("recovery_index",), StoreDamagedError, "recovery_index is missing"),
        (("recovery_index", "sealed_key"), StoreDamagedError, "recovery_index is missing"),
    ],
)
async def test_a_missing_file_is_never_treated_as_a_fresh_start(
    tmp_path: Path, gone: tuple[str, ...], error: type[KeyhouseError], named: str
) -> None:
    path = tmp_path / "state"
    await establish(path)
    for name in gone:
        (path / name).unlink()
    with pytest.raises(error, match=named):
        await found(path)


async def test_an_emptied_journal_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path)
    os.truncate(path / "journal.db", 0)
    with pytest.raises(StoreEmptyError, match=r"journal\.db is empty"):
        await found(path)
    assert (path / "journal.db").stat().st_size == 0  # the start writes nothing
    (path / "journal.db").unlink()
    await (await SqliteStore.open(path / "journal.db")).close()  # a schema without a record
    with pytest.raises(StoreEmptyError, match=r"journal\.db is empty"):
        await found(path)


async def test_a_journal_older_than_the_sealed_head_was_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path, events=1)
    shutil.copytree(path, tmp_path / "old")
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    await what.journal.append([b"later"])
    await storage.write_head()
    await storage.close()
    shutil.copy(tmp_path / "old" / "journal.db", path / "journal.db")
    with pytest.raises(RolledBackError, match=r"1\.2 .*1\.3"):
        await found(path)


async def test_a_journal_of_an_older_epoch_is_refused_and_so_is_an_older_key(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state"
    await establish(path)
    shutil.copytree(path, tmp_path / "old")
    storage = await open_storage(path)
    await storage.load()
    await storage.begin_epoch([b"new"], dek=OTHER_DEK, recovery_index=b"new index")
    await storage.close()
    mixed = tmp_path / "mixed"
    shutil.copytree(path, mixed)
    shutil.copy(tmp_path / "old" / "sealed_key", mixed / "sealed_key")
    with pytest.raises(StoreDamagedError, match=r"sealed_key .*epoch 1, .*epoch 2"):
        await found(mixed)
    shutil.copy(path / "sealed_key", mixed / "sealed_key")
    shutil.copy(tmp_path / "old" / "recovery_index", mixed / "recovery_index")
    with pytest.raises(StoreDamagedError, match=r"recovery_index .*epoch 1, .*epoch 2"):
        await found(mixed)
    shutil.copy(tmp_path / "old" / "journal.db", mixed / "journal.db")
    with pytest.raises(RolledBackError, match=r"journal\.db .*epoch 1, sealed_key .*epoch 2"):
        await found(mixed)


@pytest.mark.parametrize(
    ("name", "offset", "named"),
    [
        ("sealed_key", 8, "sealed_key has format 3, this version of Keyhouse reads 2"),
        ("recovery_index", 8, "recovery_index has format 3, this version of Keyhouse reads 1"),
    ],
)
async def test_a_file_of_a_newer_version_is_refused_with_both_versions(
    tmp_path: Path, name: str, offset: int, named: str
) -> None:
    path = tmp_path / "state"
    await establish(path)
    raw = bytearray((path / name).read_bytes()[:-32])
    raw[offset] = 3
    (path / name).write_bytes(raw + hashlib.sha256(raw).digest())
    with pytest.raises(StoreNewerError, match=named):
        await found(path)


# --- each byte ---------------------------------------------------------------------------------


async def outcome(path: Path, expected: Replay) -> str:
    """Start on a damaged directory; return the outcome in one word."""
    try:
        what = await found(path)
    except KeyhouseError as exc:
        named = any(name in str(exc) for name in ("sealed_key", "recovery_index", "journal"))
        return "refused" if named else f"nameless: {exc}"
    if isinstance(what, Locked):
        return "recovery"
    assert isinstance(what, Opened), "never fresh"
    assert what.replay == expected
    return "exact"


@pytest.mark.parametrize(
    ("name", "stride", "allowed"),
    [
        ("sealed_key", 3, {"refused"}),
        ("recovery_index", 1, {"refused"}),
        ("journal.db", 97, {"refused", "exact"}),
    ],
)
async def test_no_changed_byte_gives_another_state(
    tmp_path: Path, name: str, stride: int, allowed: set[str]
) -> None:
    path = tmp_path / "state"
    await establish(path, events=3)
    expected = (await opened(path)).replay
    genuine = (path / name).read_bytes()
    outcomes = set()
    for offset in range(0, len(genuine), stride):
        raw = bytearray(genuine)
        raw[offset] ^= 1 << offset % 8
        with (path / name).open("r+b") as file:
            file.write(raw)
        outcomes.add(await outcome(path, expected))
        with (path / name).open("r+b") as file:
            file.truncate()
            file.write(genuine)
            file.truncate()
    assert outcomes <= allowed
    assert "refused" in outcomes


@pytest.mark.parametrize("name", FILES)
async def test_no_shortened_file_gives_another_state(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state"
    await establish(path, events=3)
    expected = (await opened(path)).replay
    genuine = (path / name).read_bytes()
    lengths = [len(genuine) * part // 23 for part in range(23)] + [len(genuine) - 1]
    for length in lengths:
        with (path / name).open("r+b") as file:
            file.truncate(length)
        assert await outcome(path, expected) == "refused"
        with (path / name).open("r+b") as file:
            file.write(genuine)


async def test_the_sealed_part_says_recovery_when_only_the_digest_fits(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path)
    raw = bytearray((path / "sealed_key").read_bytes()[:-32])
    raw[-1] ^= 1
    (path / "sealed_key").write_bytes(raw + hashlib.sha256(raw).digest())
    assert isinstance(await found(path), Locked)


# --- permissions --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "lock", ""])
async def test_wider_permissions_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state"
    await establish(path)
    (path / name).chmod(0o750 if not name else 0o640)
    with pytest.raises(InsecureFileError, match=f"{name or 'state'} .* 0[67][45]0"):
        await found(path)


@pytest.mark.parametrize("name", [*FILES, "lock", ""])
async def test_symbolic_links_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state"
    await establish(path)
    place = path / name if name else path
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InsecureFileError, match=f"{name or 'state'} .*symbolic link"):
        await found(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", [*FILES, ""])
async def test_files_of_another_user_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state"
    await establish(path)
    os.chown(path / name, 12345, -1)
    with pytest.raises(InsecureFileError, match=f"{name or 'state'} .* 12345"):
        await found(path)


async def test_a_planted_rollback_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path)
    shutil.copy(path / "journal.db", path / "journal.db-journal")
    with pytest.raises(StoreDamagedError, match=r"journal\.db-journal"):
        await found(path)


HOLDER = """
import asyncio, sys
from pathlib import Path
from keyhouse.journal import DirectoryStorage
from keyhouse.base.secret import Secret
async def main():
    key = Secret(bytes(32))
    await DirectoryStorage.open(Path(sys.argv[1]), platform_kind="p", sealing_key=lambda _: key)
    print("open", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


async def test_a_second_process_is_refused_by_the_number_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "state"
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLDER,
        path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"open\n"
    with pytest.raises(StoreLockedError, match=f"process {holder.pid}"):
        await open_storage(path)
    holder.kill()
    await holder.communicate()
    assert await found(path) == Fresh()


# --- epochs and crashes --------------------------------------------------------------------------


async def test_old_records_are_gone_from_the_disk_after_a_new_data_key(tmp_path: Path) -> None:
    path = tmp_path / "state"
    storage = await open_storage(path)
    journal = await storage.establish(
        store_id=fresh_id(), dek=DEK, base=[b"base" * 100] * 20, policy="ProductKey"
    )
    for number in range(300):
        await journal.append([b"%d" % number * 50])
    assert storage._held is not None
    batch = await storage._held.store.read(0)
    assert batch.start is not None
    pieces = [record.ciphertext[-24:] for record in batch.records]
    pieces += [record.nonce for record in batch.records]
    live = b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file())
    assert all(piece in live for piece in pieces)
    await storage.begin_epoch([b"new base"], dek=OTHER_DEK, recovery_index=b"new index")
    live = b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file())
    assert not any(piece in live for piece in pieces)
    assert not (path / "recovery_index.next").exists()
    await storage.close()
    what = await opened(path)
    assert what.replay == Replay((b"new base",), ())
    assert what.recovery_index == b"new index"
    (path / "sealed_key").unlink()
    storage = await open_storage(path)
    assert isinstance(await storage.load(), Locked)
    with pytest.raises(WrongKeyError):
        await storage.recover(DEK)
    await storage.close()


async def test_an_epoch_under_the_same_key_keeps_index_and_policy(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path, events=2)
    storage = await open_storage(path)
    await storage.load()
    position = await storage.begin_epoch([b"compact"])
    assert (position.epoch, position.sequence) == (2, 4)
    await storage.begin_epoch([b"again"], policy="UniqueKey")
    await storage.close()
    what = await opened(path)
    assert what.replay == Replay((b"again",), ())
    assert (what.policy, what.recovery_index) == ("UniqueKey", b"index")
    assert what.journal.position.epoch == 3


async def test_an_epoch_whose_outcome_was_unknown_keeps_the_key_that_fits(tmp_path: Path) -> None:
    path, loop = tmp_path / "state", asyncio.get_running_loop()
    await establish(path, events=1)

    def step(name: str) -> None:
        if name == "committed":  # on the store's thread
            loop.call_soon_threadsafe(beginning.cancel)

    storage = await open_storage(path, step=step)
    what = await storage.load()
    assert isinstance(what, Opened)
    beginning = asyncio.ensure_future(
        storage.begin_epoch([b"new base"], dek=OTHER_DEK, policy="UniqueKey", recovery_index=b"new")
    )
    await asyncio.wait([beginning])
    assert beginning.cancelled()
    with pytest.raises(OutcomeUnknownError):
        await what.journal.append([b"not before it is settled"])
    assert (await storage.settle()).epoch == 2
    assert not (path / "recovery_index.next").exists()
    await what.journal.append([b"continues"])
    await storage.close()
    after = await opened(path)
    assert after.replay == Replay((b"new base",), (b"continues",))
    assert (after.policy, after.recovery_index) == ("UniqueKey", b"new")


async def test_a_base_that_fails_leaves_the_old_epoch_and_its_key(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"one"
        raise LookupError

    path = tmp_path / "state"
    await establish(path, events=1)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    with pytest.raises(LookupError):
        await storage.begin_epoch(failing(), dek=OTHER_DEK, policy="UniqueKey", recovery_index=b"x")
    assert not (path / "recovery_index.next").exists()
    await what.journal.append([b"continues"])
    await storage.close()
    after = await opened(path)
    assert after.replay.events == (b"event 0", b"continues")
    assert (after.policy, after.recovery_index) == ("ProductKey", b"index")


def told(what: Fresh | Locked | Opened) -> object:
    """Return the relevant parts of a start: state and index."""
    if isinstance(what, Opened):
        return (*what.replay.base, *what.replay.events, what.recovery_index, what.policy)
    if isinstance(what, Locked):
        return ("locked", what.recovery_index)
    return "ended" if what.ended is not None else "fresh"


OLD = (b"base", b"event 0", b"index", "ProductKey")


Step = Callable[[str], None]


@asynccontextmanager
async def acting(
    path: Path, step: Step, *, machine: str = "one"
) -> AsyncIterator[DirectoryStorage]:
    storage = await open_storage(path, machine=machine, step=step)
    try:
        await storage.load()
        yield storage
        step("answered")
    finally:
        await storage.close()


async def test_new_store_is_synced_before_it_is_committed(tmp_path: Path) -> None:
    steps: list[str] = []
    await do_establish(tmp_path / "state", steps.append)
    before = steps[: steps.index("rename plan.new to plan")]
    written = {"plan.new", "recovery_index", "sealed_key"}
    synced = {name: before.index(f"sync {name}") for name in written | {"journal.db"}}
    assert all(before.index(f"write {name}") < synced[name] for name in written)
    # Its own commits are not synced, so the sync comes after all of them.
    assert max(before.index("commit"), before.index("truncate the WAL")) < synced["journal.db"]
    assert before[-1] == "sync state/"
    assert before[-2] == "sync incoming/"
    # The directory has no further files before its durable mark.
    assert before.index("sync incoming/") < min(before.index("begin"), synced["journal.db"])


async def do_establish(path: Path, step: Step) -> None:
    async with acting(path, step) as storage:
        await storage.establish(
            store_id=fresh_id(),
            dek=DEK,
            base=[b"1", b"2"],
            policy="ProductKey",
            recovery_index=b"i",
        )


async def do_succeed(path: Path, step: Step) -> None:
    async with acting(path, step, machine="two") as storage:
        await storage.establish(
            store_id=fresh_id(),
            dek=OTHER_DEK,
            base=[b"1", b"2"],
            policy="ProductKey",
            recovery_index=b"i",
        )


async def do_archive(path: Path, step: Step) -> None:
    async with acting(path, step, machine="two") as storage:
        await storage.archive()


async def do_destroy(path: Path, step: Step) -> None:
    async with acting(path, step) as storage:
        await storage.destroy(NOON_MICROSECONDS)
    assert not secrets_in(path)


async def do_go_on(path: Path, step: Step) -> None:
    async with acting(path, step) as storage:
        await storage.establish(
            store_id=STORE_ID,
            dek=DEK,
            base=[b"1"],
            policy="UniqueKey",
            recovery_index=b"i",
            after=Position(7, 70, b"c" * 32),
        )


async def do_begin_epoch(path: Path, step: Step) -> None:
    async with acting(path, step) as storage:
        await storage.begin_epoch([b"1"], dek=OTHER_DEK, policy="UniqueKey", recovery_index=b"i")


async def do_append(path: Path, step: Step) -> None:
    async with acting(path, step) as storage:
        what = await storage.load()
        assert isinstance(what, Opened)
        await what.journal.append([b"1", b"2"])
        await storage.write_head()


async def do_reseal(path: Path, step: Step) -> None:
    async with acting(path, step, machine="two") as storage:
        await storage.recover(DEK)
        await storage.reseal("UniqueKey")


@pytest.mark.parametrize(
    ("before", "do", "machine", "old", "new"),
    [
        (False, do_establish, "one", "fresh", (b"1", b"2", b"i", "ProductKey")),
        (True, do_succeed, "two", ("locked", b"index"), (b"1", b"2", b"i", "ProductKey")),
        (True, do_archive, "two", ("locked", b"index"), "fresh"),
        (True, do_destroy, "one", OLD, "ended"),
        (False, do_go_on, "one", "fresh", (b"1", b"i", "UniqueKey")),
        (True, do_begin_epoch, "one", OLD, (b"1", b"i", "UniqueKey")),
        (True, do_append, "one", OLD, (b"base", b"event 0", b"1", b"2", b"index", "ProductKey")),
        (True, do_reseal, "two", ("locked", b"index"), (*OLD[:3], "UniqueKey")),
    ],
    ids=[
        *(
            "establish",
            "succeed",
            "archive",
            "destroy",
            "continue",
            "begin_epoch",
            "append",
            "reseal",
        ),
    ],
)
async def test_a_crash_at_any_step_leaves_the_state_before_or_after(
    tmp_path: Path,
    before: bool,
    do: Callable[[Path, Step], Awaitable[None]],
    machine: str,
    old: object,
    new: object,
) -> None:
    path = tmp_path / "state"
    if before:
        await establish(path, events=1)
    snapshots = Snapshots(path, tmp_path / "kept")
    await do(path, snapshots)
    seen = []
    for name, copy in [*snapshots.taken, ("stopped", path)]:
        state = told(await found(copy, machine=machine))
        assert state == told(await found(copy, machine=machine)), f"unstable after {name}"
        assert not any(each.endswith((".tmp", ".next")) for each in names(copy)), name
        seen.append((name, state))
    states = [state for _, state in seen]
    turn = states.index(new)
    assert states == [old] * turn + [new] * (len(states) - turn), seen
    assert 0 < turn <= [name for name, _ in seen].index("answered")


@pytest.mark.parametrize(
    ("do", "old", "new"),
    [
        (do_establish, "fresh", (b"1", b"2", b"i", "ProductKey")),
        (do_begin_epoch, OLD, (b"1", b"i", "UniqueKey")),
        (do_destroy, OLD, "ended"),
        (do_go_on, "ended", (b"1", b"i", "UniqueKey")),
    ],
    ids=["establish", "begin_epoch", "destroy", "continue"],
)
async def test_an_error_at_any_step_leaves_the_state_before_or_after(
    tmp_path: Path, do: Callable[[Path, Step], Awaitable[None]], old: object, new: object
) -> None:
    """The process continues after the error, and cleans up."""
    before = old != "fresh"
    if before:
        await establish(tmp_path / "old", events=1)
    if old == "ended":
        await do_destroy(tmp_path / "old", lambda _: None)
    states = set()
    for number in range(200):
        path = tmp_path / f"state-{number}"
        if before:
            shutil.copytree(tmp_path / "old", path)
        countdown = Countdown(number)
        try:
            await do(path, countdown)
        except (OSError, KeyhouseError):
            assert not countdown.answered
        if countdown.left >= 0:
            break
        state = told(await found(path))
        assert state in {old, new}
        assert state == new or not countdown.answered
        states.add(state)
    assert states == {old, new}


class Countdown:
    """A disk that fails once, after ``left`` successful steps."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.answered = False

    def __call__(self, name: str) -> None:
        self.left -= 1
        if name == "answered":
            self.answered = True
        elif self.left == -1:
            raise OSError(5, "test: input/output error")


async def test_a_crash_within_a_crash_is_finished_too(tmp_path: Path) -> None:
    """Each completing start of a succession is interrupted at each step."""
    path = tmp_path / "state"
    await establish(path, events=1)
    snapshots = Snapshots(path, tmp_path / "kept")
    await do_succeed(path, snapshots)
    committed = [copy for name, copy in snapshots.taken if (copy / "incoming" / "plan").exists()]
    assert len(committed) > 5
    known: set[Image] = set()
    for number, copy in enumerate(committed):
        inner = Snapshots(copy, tmp_path / f"inner-{number}", known)
        storage = await open_storage(copy, machine="two", step=inner)
        await storage.close()
        for _, image in inner.taken:
            assert told(await found(image, machine="two")) == (b"1", b"2", b"i", "ProductKey")
            assert len(names(image / "archive")) == 1


@pytest.mark.parametrize(
    "plan", [b"", b"replace ../../etc\n", b"replace a/b\n", b"clear \n", b"replace x", b"x" * 200]
)
async def test_a_changed_plan_is_refused(tmp_path: Path, plan: bytes) -> None:
    path = tmp_path / "state"
    await establish(path)
    (path / "incoming").mkdir(0o700)
    (path / "incoming" / "plan").touch(0o600)
    (path / "incoming" / "plan").write_bytes(plan)
    with pytest.raises(StoreDamagedError, match="plan"):
        await found(path)


# --- erased stores -------------------------------------------------------------------------------


async def ended(path: Path, *, events: int = 0) -> Position:
    """Leave a directory with an erased store; return the store's last place."""
    await establish(path, events=events)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    await storage.destroy(NOON_MICROSECONDS)
    await storage.close()
    return what.journal.position


async def test_a_store_that_ended_leaves_a_tombstone_and_not_one_byte_more(tmp_path: Path) -> None:
    path, linked = tmp_path / "state", tmp_path / "linked"
    await establish(path, events=3)
    linked.mkdir()
    for name in FILES:  # a second name shows the later content of each file
        (linked / name).hardlink_to(path / name)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    await storage.destroy(NOON_MICROSECONDS)
    with pytest.raises(BrokenError, match="not open"):
        await storage.write_head()
    await storage.close()
    assert names(path) == ["lock", "tombstone"]
    assert (path / "tombstone").stat().st_mode & 0o777 == 0o600
    assert all(not any(file.read_bytes()) for file in linked.iterdir())
    journal = what.journal
    tombstone = Tombstone(journal.store_id, journal.position, NOON_MICROSECONDS)
    assert await found(path) == Fresh(tombstone)
    assert "2026-03-01T12:00:00Z" in str(tombstone)
    assert f"1.4.{journal.position.chain[:8].hex()}" in str(tombstone)


@pytest.mark.parametrize("name", FILES)
async def test_an_older_copy_beside_a_tombstone_is_neither_used_nor_erased(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "state"
    await establish(path)
    shutil.copytree(path, tmp_path / "copy")
    storage = await open_storage(path)
    await storage.load()
    await storage.destroy(NOON_MICROSECONDS)
    await storage.close()
    shutil.copy(tmp_path / "copy" / name, path / name)
    with pytest.raises(StoreEndedError, match=rf"1\.1\.[0-9a-f]{{16}}, .*{name}"):
        await found(path)
    assert (path / name).read_bytes() == (tmp_path / "copy" / name).read_bytes()


async def test_a_journal_continues_on_the_disk_where_it_stood_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "state"
    before = await ended(path, events=2)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Fresh)
    assert what.ended is not None
    store_id = what.ended.store_id
    in_memory = await Journal.create(
        MemoryStore(), store_id=store_id, dek=DEK, base=[b"in memory"], after=before
    )
    await in_memory.append([b"event"])
    assert (in_memory.position.epoch, in_memory.position.sequence) == (2, 5)
    journal = await storage.establish(
        store_id=store_id, dek=DEK, base=[b"kept"], policy="UniqueKey", after=in_memory.position
    )
    assert (journal.position.epoch, journal.position.sequence) == (3, 6)
    await journal.append([b"more"])
    await storage.close()
    assert names(path) == sorted([*FILES, "lock"])
    again = await opened(path)
    assert again.replay == Replay((b"kept",), (b"more",))
    assert again.journal.position == journal.position


async def test_a_tombstone_goes_when_a_new_deployment_comes(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await ended(path)
    await establish(path, base=b"another")
    assert names(path) == sorted([*FILES, "lock"])


@pytest.mark.parametrize("offset", [0, 8, 9, 40, 80, 100])
async def test_a_damaged_tombstone_is_refused_by_name(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "state"
    await ended(path)
    raw = bytearray((path / "tombstone").read_bytes())
    raw[offset] ^= 1
    (path / "tombstone").write_bytes(raw)
    with pytest.raises(StoreDamagedError, match="tombstone "):
        await found(path)


async def test_a_tombstone_of_a_newer_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await ended(path)
    raw = bytearray((path / "tombstone").read_bytes()[:-32])
    raw[8] = 2
    (path / "tombstone").write_bytes(raw + hashlib.sha256(raw).digest())
    with pytest.raises(StoreNewerError, match=r"tombstone .* 2, .* 1 "):
        await found(path)


async def test_a_full_disk_at_the_end_of_a_store_leaves_it_open(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path)
    storage = await open_storage(path)
    what = await storage.load()
    assert isinstance(what, Opened)
    (path / "incoming").touch()  # the erasure needs a directory here
    with pytest.raises(KeyhouseError):
        await storage.destroy(NOON_MICROSECONDS)
    await what.journal.append([b"continues"])
    (path / "incoming").unlink()
    await storage.destroy(NOON_MICROSECONDS)
    await storage.close()
    assert isinstance(await found(path), Fresh)


async def test_a_directory_set_back_to_each_sequence_never_sees_a_nonce_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state"
    storage = await open_storage(path)
    journal = await storage.establish(
        store_id=fresh_id(), dek=DEK, base=[b"base"], policy="ProductKey"
    )
    for number in range(8):
        shutil.copytree(path, tmp_path / f"copy-{number}")
        await journal.append([b"event %d" % number])
    nonces = await nonces_of(storage)
    await storage.close()
    for number in range(8):
        restored = await open_storage(tmp_path / f"copy-{number}")
        what = await restored.load()
        assert isinstance(what, Opened)
        assert len(what.replay.events) == number
        await what.journal.append([b"something else"])
        nonces.append((await nonces_of(restored))[-1])
        await restored.close()
    assert len(set(nonces)) == len(nonces) == 17


async def nonces_of(storage: DirectoryStorage) -> list[bytes]:
    assert storage._held is not None
    return [record.nonce for record in (await storage._held.store.read(0)).records]


async def test_no_error_or_name_shows_a_key(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await establish(path, base=b"canary-payload", index=b"index")
    shown = [repr(await found(path)), str(await found(path))]
    with pytest.raises(WrongPlatformError) as refused:
        await found(path, platform_kind="tdx")
    shown.append(f"{refused.value!r} {refused.value}")
    shown.append(repr(Continuation((b"canary-payload",))))
    for text in shown:
        assert "canary" not in text
        assert DEK.reveal().hex() not in text
        assert repr(DEK.reveal())[2:-1] not in text
