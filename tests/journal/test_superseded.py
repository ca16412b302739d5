"""Two processes on one directory without shared locks, as in two enclaves."""

import asyncio
import fcntl
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.samples.state import DEK, NOON_MICROSECONDS, STORE_ID, open_storage

from keyhouse.journal import DirectoryStorage, Opened
from keyhouse.journal.store.protocol import StoreLockedError, SupersededError

Do = Callable[[DirectoryStorage, Opened], Awaitable[object]]


@pytest.fixture(autouse=True)
def _unseen_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda _handle, _how: None)


async def _establish(path: Path) -> None:
    storage = await open_storage(path)
    await storage.establish(
        store_id=STORE_ID, dek=DEK, base=[b"base"], policy="ProductKey", recovery_index=b"index"
    )
    await storage.close()


async def _load(storage: DirectoryStorage) -> Opened:
    found = await storage.load()
    assert isinstance(found, Opened)
    return found


async def _events(path: Path) -> list[bytes]:
    """Start on ``path``, and stop; return the events of the journal."""
    storage = await open_storage(path, shares_locks=False)
    try:
        return list((await _load(storage)).replay.events)
    finally:
        await storage.close()


def _append(*payloads: bytes) -> Do:
    return lambda _storage, opened: opened.journal.append(payloads)


ACTS: dict[str, Do] = {
    "append": _append(b"late"),
    "begin an epoch": lambda storage, _: storage.begin_epoch([b"base"], policy="UniqueKey"),
    "write the head": lambda storage, _: storage.write_head(),
    "reseal": lambda storage, _: storage.reseal("UniqueKey"),
    "erase": lambda storage, _: storage.destroy(NOON_MICROSECONDS),
    "load again": lambda storage, _: storage.load(),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_superseded_process_does_nothing_more(tmp_path: Path, act: str) -> None:
    path = tmp_path / "state"
    await _establish(path)
    old = await open_storage(path)
    before = await _load(old)
    await before.journal.append([b"answered"])
    new = await open_storage(path, shares_locks=False)
    opened = await _load(new)
    assert opened.replay.events == (b"answered",)

    with pytest.raises(SupersededError, match="another process"):
        await ACTS[act](old, before)
    await opened.journal.append([b"new"])
    await old.close()
    await opened.journal.append([b"newer"])

    shutil.copytree(path, tmp_path / "killed")
    assert await _events(tmp_path / "killed") == [b"answered", b"new", b"newer"]
    await new.write_head()
    await new.close()
    assert await _events(path) == [b"answered", b"new", b"newer"]


@pytest.mark.parametrize("at", ["begin", "commit", "committed", "answered"])
async def test_what_one_answered_the_next_one_finds(tmp_path: Path, at: str) -> None:
    """The second process starts at a step of an append, and loads before the append continues."""
    path = tmp_path / "state"
    await _establish(path)
    loaded: list[bytes] = []
    begun = False

    def step(name: str) -> None:
        if begun and name == at:
            loaded.extend(asyncio.run(_events(path)))

    old = await open_storage(path, step=step)
    opened = await _load(old)
    begun = answered = True
    try:
        await opened.journal.append([b"event"])
    except SupersededError:
        answered = False
    if at == "answered":
        await asyncio.to_thread(step, at)
    await old.close()

    assert answered == (at == "answered")
    assert not answered or loaded == [b"event"]
    assert await _events(path) in ([], [b"event"])
    assert not answered or await _events(path) == [b"event"]


@pytest.mark.parametrize("content", [None, b"", b"1 00\n", b"x" * 5000])
async def test_a_lock_that_does_not_name_this_process_stops_it(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "state"
    await _establish(path)
    storage = await open_storage(path)
    opened = await _load(storage)
    if content is None:
        (path / "lock").unlink()
    else:
        (path / "lock").write_bytes(content)
    with pytest.raises(SupersededError):
        await opened.journal.append([b"event"])
    await storage.close()


async def test_a_store_that_is_written_all_the_time_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await _establish(path)

    def step(name: str) -> None:
        if name == "compare":
            with (path / "journal.db").open("ab") as file:
                file.write(bytes(4096))

    storage = await open_storage(path, step=step, shares_locks=False)
    with pytest.raises(StoreLockedError, match=r"writes to journal\.db"):
        await storage.load()
    await storage.close()
    assert not (path / "journal.db.tmp").exists() or await _gone(path)


async def _gone(path: Path) -> bool:
    await (await open_storage(path)).close()
    return not (path / "journal.db.tmp").exists()


async def test_a_crash_at_each_step_of_taking_the_journal_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state"
    await _establish(path)
    first = await open_storage(path)
    opened = await _load(first)
    await opened.journal.append([b"in the WAL"])
    shutil.copytree(path, tmp_path / "killed")
    await first.close()
    copies: list[Path] = []

    def keep(_name: str) -> None:
        copies.append(tmp_path / "kept" / str(len(copies)))
        shutil.copytree(tmp_path / "killed", copies[-1])

    second = await open_storage(tmp_path / "killed", step=keep, shares_locks=False)
    await _load(second)
    await second.close()
    assert len(copies) > 5
    for copy in copies:
        assert await _events(copy) == [b"in the WAL"]
