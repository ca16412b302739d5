"""Updates that move the state from the disk to memory, and back: SealMode to and from Disabled."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from support.samples.deployment import (
    MACHINE,
    FixedClock,
    crashing_engine,
    new_process,
    running_engine,
    set_manifest,
    stored,
    upload,
)
from support.samples.state import Snapshots
from support.samples.updates import acknowledged, holder_key, initiated, together

from keyhouse.authority.recovery.shares import combine_xor
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import AcceptingManifest, Engine, NewDeployment, View, open_engine
from keyhouse.coordinator.core.state import Running
from keyhouse.journal import DirectoryStorage, Journal, Position
from keyhouse.journal.store.protocol import StoreFullError
from keyhouse.journal.store.sqlite import SqliteStore

STORE = {"journal.db", "journal.db-wal", "sealed_key", "recovery_index", "recovery_index.next"}
OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)


def _raw(mode: str, *, updaters: tuple[str, ...] = ("alice",), **arguments: Any) -> bytes:
    return together(updaters=updaters, UpdateThreshold=0, SealMode=mode, **arguments)


KEPT, NOWHERE = _raw("ProductKey"), _raw("Disabled")


def _position(view: View) -> Position:
    assert view.position is not None
    return view.position


def _files(path: Path) -> set[str]:
    """Return the names in the state directory, except the lock."""
    return {each.name for each in path.iterdir()} - {"lock"}


def _last(engine: Engine) -> dict[str, Any]:
    *_, line = engine.view.log.lines()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


# --- the files after an update, and the continuation ---


async def test_an_update_to_disabled_leaves_a_tombstone_and_continues_in_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data"
    async with running_engine(path) as engine:
        await set_manifest(engine, KEPT)
        before = _position(await upload(engine, {"note": b"kept so far"}))
        root = engine.view.running.keys.root_cert
        after = _position(await initiated(engine, NOWHERE))
        assert _files(path) == {"tombstone"}
        assert (after.epoch, after.sequence > before.sequence) == (before.epoch + 1, True)
        assert "a restart loses everything" in _last(engine)["update"]
        last = _position(await upload(engine, {"note": b"in memory"}))
        assert (last.epoch, last.sequence) == (after.epoch, after.sequence + 1)
        assert stored(engine.view)["note"] == b"in memory"
    async with running_engine(path) as engine:
        state = engine.view.state
        assert isinstance(state, AcceptingManifest)
        where = f"{before.epoch}.{before.sequence}.{before.chain[:8].hex()}"
        assert where in state.note
        assert state.keys.root_cert != root
        await set_manifest(engine, KEPT)
    assert _files(path) == {"journal.db", "log", "sealed_key", "recovery_index"}


async def test_an_update_from_disabled_keeps_everything_from_its_answer_on(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with crashing_engine(path) as engine:
        await set_manifest(engine, NOWHERE)
        before = _position(await upload(engine, {"note": b"from memory"}))
        assert _files(path) == set()
        after = _position(await initiated(engine, _raw("UniqueKey")))
        assert (after.epoch, after.sequence > before.sequence) == (before.epoch + 1, True)
        assert "keeps the state on the disk" in _last(engine)["update"]
        state, log = engine.view.running, list(engine.view.log.lines())
    assert b"UniqueKey" in (path / "sealed_key").read_bytes()
    async with crashing_engine(path) as engine:
        found = engine.view.running
        assert (found.keys, found.manifest) == (state.keys, state.manifest)
        assert stored(engine.view)["note"] == b"from memory"
        assert list(engine.view.log.lines()) == log
        assert _position(engine.view).sequence == after.sequence + 2  # the start, and the leaf


async def test_there_and_back_in_one_process_no_client_sees_a_step_back(tmp_path: Path) -> None:
    path = tmp_path / "data"
    seen: list[Position] = []
    async with running_engine(path) as engine:
        await set_manifest(engine, KEPT)
        for number in range(3):
            for raw in (NOWHERE, KEPT):
                seen.append(_position(await initiated(engine, raw)))
                seen.append(_position(await upload(engine, {"note": b"%d" % number})))
    async with running_engine(path) as engine:
        seen.append(_position(engine.view))
        assert stored(engine.view)["note"] == b"2"
    sequences, epochs = [each.sequence for each in seen], [each.epoch for each in seen]
    assert sequences == sorted(set(sequences))
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 6


@pytest.mark.parametrize("change", ["same keys", "other keys"])
async def test_the_shares_in_force_open_what_is_kept_again(tmp_path: Path, change: str) -> None:
    path = tmp_path / "data"
    async with running_engine(path) as engine:
        await set_manifest(engine, _raw("Disabled", holders=("a", "b")))
        shares = engine.view.running.recovery
        holders = ("a", "b") if change == "same keys" else ("a", "c")
        await initiated(engine, _raw("ProductKey", holders=holders))
        recovery = engine.view.running.recovery
        assert (recovery == shares) is (change == "same keys")
        store_id = (path / "recovery_index").read_bytes()[9:25]
    opened = [holder_key(each.name).decrypt(each.ciphertext, OAEP) for each in recovery.holders]
    store = await SqliteStore.open(path / "journal.db")
    try:
        dek = combine_xor([Secret(share) for share in opened])
        await Journal.open(store, store_id=store_id, dek=dek)
    finally:
        await store.close()


async def test_the_last_acknowledgement_moves_the_state_with_the_update(tmp_path: Path) -> None:
    path, two = tmp_path / "data", ("alice", "bob")
    async with running_engine(path) as engine:
        await set_manifest(engine, _raw("ProductKey", updaters=two))
        await initiated(engine, _raw("Disabled", updaters=two))
        assert "tombstone" not in _files(path)
        await acknowledged(engine, _raw("Disabled", updaters=two), "bob")
        assert _files(path) == {"tombstone"}
        await initiated(engine, _raw("ProductKey", updaters=two), "bob")
        assert _files(path) == {"tombstone"}
        await acknowledged(engine, _raw("ProductKey", updaters=two), "alice")
    async with running_engine(path) as engine:
        assert engine.view.running.manifest == _raw("ProductKey", updaters=two)


# --- a crash, or a failed disk, at each step ---


class _Hook:
    """A ``step`` that calls ``then``, by default without effect."""

    def __init__(self) -> None:
        self.then: Callable[[str], None] = lambda _: None

    def __call__(self, name: str) -> None:
        self.then(name)


@asynccontextmanager
async def _stepping(path: Path, step: Callable[[str], None]) -> AsyncIterator[Engine]:
    """Run the engine of ``path``; the storage calls ``step`` before each durable step."""
    storage = await DirectoryStorage.open(
        path,
        platform_kind="test",
        sealing_key=lambda policy: Secret(MACHINE.reveal()[:16] + policy.encode().ljust(16)[:16]),
        step=step,
    )
    new = NewDeployment("P-256", ("localhost",), ())
    engine = await open_engine(
        storage, clock=FixedClock(), process=new_process(), new=new, origin=None
    )
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.queue.stop()
        await asyncio.wait([writing])
        writing.exception()  # retrieved: a failed disk ends the task
        await engine.close()


async def _found(path: Path) -> bytes:
    """Return the manifest after a start in ``path``, and check the secret; b"": no manifest."""
    async with running_engine(path) as engine:
        state = engine.view.state
        if isinstance(state, AcceptingManifest):
            return b""
        assert isinstance(state, Running)
        assert stored(engine.view)["note"] == b"value"
        return state.manifest


async def _begun(path: Path, first: bytes, step: Callable[[str], None], then: bytes) -> None:
    """Set ``first``, upload a secret, update to ``then``. The update calls ``step``."""
    hook = _Hook()
    async with _stepping(path, hook) as engine:
        await set_manifest(engine, first)
        await upload(engine, {"note": b"value"})
        hook.then = step
        await initiated(engine, then)
        step("answered")


@pytest.mark.parametrize("mode", ["to", "from"])
async def test_a_crash_at_any_step_leaves_the_one_state_or_the_other(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "data"
    snapshots = Snapshots(path, tmp_path / "kept")
    # A crash loses the content of memory, before and after an update.
    first, then, old, new = (
        (KEPT, NOWHERE, KEPT, b"") if mode == "to" else (NOWHERE, KEPT, b"", KEPT)
    )
    await _begun(path, first, snapshots, then)
    states = [(name, await _found(copy)) for name, copy in snapshots.taken]
    found = [state for _, state in states]
    turn = found.index(new)
    assert found == [old] * turn + [new] * (len(found) - turn), states
    assert 0 < turn <= [name for name, _ in states].index("answered")


class _FailingOnce:
    """A disk that fails once, after ``left`` successful steps."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.answered = False

    def __call__(self, name: str) -> None:
        self.left -= 1
        self.answered = self.answered or name == "answered"
        if self.left == -1 and name != "answered":
            raise StoreFullError(f"no room to {name}")


@pytest.mark.parametrize("mode", ["to", "from"])
async def test_a_step_that_fails_is_never_answered_with_a_success(
    tmp_path: Path, mode: str
) -> None:
    first, then = (KEPT, NOWHERE) if mode == "to" else (NOWHERE, KEPT)
    outcomes = set()
    for number in range(100):
        path, failing = tmp_path / str(number), _FailingOnce(number)
        try:
            await _begun(path, first, failing, then)
        except (StoreFullError, BrokenError) as error:
            outcomes.add(type(error).__name__)
        if failing.left >= 0:
            break
        found = await _found(path)
        if failing.answered:
            assert found == (b"" if mode == "to" else KEPT)
        else:
            assert found in {b"", KEPT}
        if not found:  # a missing state leaves no files of the store
            assert not _files(path) & STORE
    else:
        pytest.fail("the steps do not end")
    assert outcomes == {"StoreFullError", "BrokenError"}


@pytest.mark.parametrize("mode", ["to", "from"])
async def test_where_nothing_happened_the_state_stays_where_it_is(
    tmp_path: Path, mode: str
) -> None:
    first, then = (KEPT, NOWHERE) if mode == "to" else (NOWHERE, KEPT)
    hook = _Hook()
    async with _stepping(tmp_path / "data", hook) as engine:
        await set_manifest(engine, first)
        before = await upload(engine, {"note": b"value"})
        hook.then = _FailingOnce(1)
        with pytest.raises(StoreFullError):
            await initiated(engine, then)
        assert engine.view == before
        view = await upload(engine, {"note": b"continues"})
        assert _position(view).sequence == _position(before).sequence + 1
        assert (await initiated(engine, then)).running.manifest == then
