"""A stop of a recovery at any step on the disk leaves recovery mode, or the recovered state."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from support.captured_log import capture_logs
from support.samples.crafted import Made, made
from support.samples.deployment import (
    NOW,
    FixedClock,
    new_process,
    open_storage,
    running_engine,
    stored,
)
from support.samples.recovery import holders, recoverable
from support.samples.state import Snapshots

from keyhouse.authority import CoordinatorKeys, SubmittedShare
from keyhouse.base.errors import BrokenError, ForbiddenError, UnavailableError, WrongPhaseError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, NewDeployment, Phase, Recovery, open_engine
from keyhouse.coordinator.core.events import Published, Started
from keyhouse.coordinator.engine.records import decode_events
from keyhouse.coordinator.engine.recover import RecoveryRefusedError
from keyhouse.journal import DirectoryStorage, Opened, StoreDamagedError
from keyhouse.journal.store.protocol import Step, StoreFullError, no_step
from keyhouse.transparency import leaf
from keyhouse.transparency.leaf import read_leaf

DAY = 24 * 3600 * 1_000_000
ELSEWHERE = Secret(b"another machine, which has other keys")
KEYS = holders(1)
_OF_SQLITE = {"begin", "commit", "committed", "truncate"}


async def _ready(_keys: CoordinatorKeys) -> Callable[[], None]:
    return lambda: None


def _recovery(crafted: Made) -> Recovery:
    share = KEYS[0].share(crafted.running.recovery.holders[0].ciphertext)
    submission = SubmittedShare(KEYS[0].name, Secret(share), KEYS[0].sign(share))
    return Recovery(Secret(share), (submission,), _ready)


@asynccontextmanager
async def _elsewhere(
    path: Path, step: Step, clock: FixedClock | None = None
) -> AsyncIterator[Engine]:
    """Run an engine on another machine with a disk that calls ``step``."""
    secret = ELSEWHERE.reveal()
    storage = await DirectoryStorage.open(
        path,
        platform_kind="test",
        sealing_key=lambda policy: Secret(secret[:16] + policy.encode().ljust(16)[:16]),
        step=step,
    )
    engine = await open_engine(
        storage,
        clock=clock or FixedClock(),
        process=new_process(),
        new=NewDeployment("P-256", ("localhost",), ()),
        origin=None,
    )
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.queue.stop()
        await asyncio.gather(writing, return_exceptions=True)
        await engine.close()


async def _is_whole(path: Path, crafted: Made) -> Phase:
    """Start on ``path``; recover the state if necessary. Return the phase of the start."""
    async with running_engine(path, machine=ELSEWHERE) as engine:
        phase = engine.view.phase
        if phase is Phase.RECOVERY:
            await engine.queue.add_recovery(_recovery(crafted))
        assert engine.view.state.keys == crafted.running.keys
        assert stored(engine.view).keys() == {"shared"}
    return phase


async def test_a_crash_at_any_step_leaves_recovery_mode_or_the_recovered_state(
    tmp_path: Path,
) -> None:
    crafted, data = made(recoverable(KEYS)), tmp_path / "data"
    await crafted.write(data)
    snapshots = Snapshots(data, tmp_path / "kept")
    async with _elsewhere(data, snapshots) as engine:
        before = len(snapshots.taken)
        await engine.queue.add_recovery(_recovery(crafted))
        snapshots("answered")
    found = [await _is_whole(path, crafted) for _, path in snapshots.taken[before:]]
    assert found[0] is Phase.RECOVERY
    assert found[-1] is Phase.RUNNING
    assert found == sorted(found)  # a recovered state stays recovered


class _FailsOnce:
    """A ``step`` that fails once: at the step with the number ``left``."""

    def __init__(self) -> None:
        self.left = -1
        self.failed = False

    def __call__(self, name: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.failed = True
            if name.split(maxsplit=1)[0] in {
                "begin",
                "commit",
                "committed",
                "truncate",
            }:  # SQLite's
                raise OSError(errno.ENOSPC, f"no room to {name}")
            raise StoreFullError(f"no room to {name}")


async def test_a_full_disk_at_any_step_leaves_a_recovery_that_can_be_tried_again(
    tmp_path: Path,
) -> None:
    crafted = made(recoverable(KEYS))
    for number in range(1, 40):
        data = tmp_path / str(number)
        await crafted.write(data)
        step = _FailsOnce()
        async with _elsewhere(data, step) as engine:
            step.left = number
            try:
                await engine.queue.add_recovery(_recovery(crafted))
            except (UnavailableError, RecoveryRefusedError):
                assert engine.view.phase is Phase.RECOVERY
                await engine.queue.add_recovery(_recovery(crafted))
            except BrokenError:  # the outcome of the commit is unknown until a restart
                pass
            else:
                assert engine.view.phase is Phase.RUNNING
            step.left = 0
        assert await _is_whole(data, crafted)
        if not step.failed:
            break
    else:
        pytest.fail("a recovery takes more steps than were tried")


def _is_open(folder: Path) -> bool:
    """Return whether this process has the journal in ``folder`` open."""
    journal = folder / "journal.db"
    return any(each.resolve() == journal for each in Path("/proc/self/fd").iterdir())


def _failing(crafted: Made, error: Exception) -> Recovery:
    """Return the right recovery, but ``error`` is raised after all checks."""

    async def fail(_keys: CoordinatorKeys) -> Callable[[], None]:
        raise error

    return msgspec.structs.replace(_recovery(crafted), make_ready=fail)


async def test_refused_recovery_leaves_the_store_locked(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS))
    await crafted.write(tmp_path)
    async with _elsewhere(tmp_path, no_step) as engine:
        right = _recovery(crafted)
        not_now = UnavailableError("the platform makes no quote now")
        for refused in (
            msgspec.structs.replace(right, dek=Secret(bytes(32))),
            _failing(crafted, not_now),
        ):
            with pytest.raises((RecoveryRefusedError, UnavailableError)):
                await engine.queue.add_recovery(refused)
            assert engine.view.phase is Phase.RECOVERY
            assert not _is_open(tmp_path)
        with capture_logs() as logged:
            view = await engine.queue.add_recovery(right)
        assert view.phase is Phase.RUNNING
        (told,) = (entry for entry in logged if entry["event"] == "the state was recovered")
        assert told["shares_of"] == [KEYS[0].name]
        assert _is_open(tmp_path)
        with pytest.raises(WrongPhaseError):
            await engine.queue.add_recovery(right)


@pytest.mark.parametrize("error", [UnavailableError("not now"), ForbiddenError("not here")])
async def test_what_refuses_a_recovery_is_told_as_it_is(tmp_path: Path, error: Exception) -> None:
    crafted = made(recoverable(KEYS))
    await crafted.write(tmp_path)
    async with _elsewhere(tmp_path, no_step) as engine:
        with pytest.raises(type(error)) as caught:
            await engine.queue.add_recovery(_failing(crafted, error))
        assert caught.value is error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StoreDamagedError("the record 7 is damaged"), "the record 7 is damaged"),
        (ValueError("a secret"), "the journal is invalid"),
    ],
)
async def test_state_that_the_host_made_up_is_a_refusal_and_no_fault(
    tmp_path: Path, error: Exception, message: str
) -> None:
    crafted = made(recoverable(KEYS))
    await crafted.write(tmp_path)
    async with _elsewhere(tmp_path, no_step) as engine:
        with capture_logs() as logged, pytest.raises(RecoveryRefusedError, match=message):
            await engine.queue.add_recovery(_failing(crafted, error))
        told = [entry["error"] for entry in logged if "could not be recovered" in entry["event"]]
        assert told == (["ValueError"] if isinstance(error, ValueError) else [])
        assert "a secret" not in str(logged)
        assert (await engine.queue.add_recovery(_recovery(crafted))).phase is Phase.RUNNING


async def test_recovered_state_starts_no_earlier_than_it_ended(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS))
    await crafted.write(tmp_path)
    async with _elsewhere(tmp_path, no_step, FixedClock(NOW - DAY)) as engine:
        await engine.queue.add_recovery(_recovery(crafted))
    storage = await open_storage(tmp_path, ELSEWHERE)
    opened = await storage.load()
    assert isinstance(opened, Opened)
    started, published = decode_events(opened.replay.events)
    assert isinstance(started, Started)
    assert isinstance(published, Published)
    leaves = [read_leaf(each) for each in published.leaves]
    assert [type(each) for each in leaves] == [leaf.RecoveredLeaf, leaf.StartedLeaf]
    assert started.time == crafted.running.time
    await storage.close()
