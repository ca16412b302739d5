"""A recovery stopped at any step on the disk leaves recovery mode, or the recovered state."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.samples.crafted import Made, made
from support.samples.deployment import FixedClock, new_process, running_engine, stored
from support.samples.recovery import holders, recoverable
from support.samples.state import Snapshots

from keyhouse.authority import CoordinatorKeys, SubmittedShare
from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import (
    Engine,
    NewDeployment,
    Phase,
    Recovery,
    RecoveryRefusedError,
    open_engine,
)
from keyhouse.journal import Home, StoreFullError
from keyhouse.journal.store.protocol import Step, no_step

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
async def _elsewhere(path: Path, step: Step) -> AsyncIterator[Engine]:
    """Run an engine on another machine, whose disk calls ``step``."""
    secret = ELSEWHERE.reveal()
    home = await Home.open(
        path,
        platform_kind="test",
        sealing_key=lambda policy: Secret(secret[:16] + policy.encode().ljust(16)[:16]),
        step=step,
    )
    engine = await open_engine(
        home,
        clock=FixedClock(),
        process=new_process(),
        new=NewDeployment("P-256", ("localhost",), ()),
    )
    writing = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.stop()
        await asyncio.gather(writing, return_exceptions=True)
        await engine.close()


async def _is_whole(path: Path, crafted: Made) -> Phase:
    """Return the phase that a start on ``path`` finds; recover it if that is needed."""
    async with running_engine(path, machine=ELSEWHERE) as engine:
        phase = engine.view.phase
        if phase is Phase.RECOVERY:
            await engine.recover(_recovery(crafted))
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
        await engine.recover(_recovery(crafted))
        snapshots("answered")
    found = [await _is_whole(path, crafted) for _, path in snapshots.taken[before:]]
    assert found[0] is Phase.RECOVERY
    assert found[-1] is Phase.RUNNING
    assert found == sorted(found)  # once it is recovered, it stays so


class _FailsOnce:
    """A ``step`` at which the disk fails once, after ``left`` steps that succeed."""

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
                await engine.recover(_recovery(crafted))
            except (UnavailableError, RecoveryRefusedError):
                assert engine.view.phase is Phase.RECOVERY
                await engine.recover(_recovery(crafted))
            except BrokenError:  # the outcome of the commit is not known: a restart finds out
                pass
            else:
                assert engine.view.phase is Phase.RUNNING
            step.left = 0
        assert await _is_whole(data, crafted)
        if not step.failed:
            break
    else:
        pytest.fail("a recovery takes more steps than were tried")


async def test_wrong_data_key_opens_nothing(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS))
    await crafted.write(tmp_path)
    async with _elsewhere(tmp_path, no_step) as engine:
        right = _recovery(crafted)
        wrong = Recovery(Secret(bytes(32)), right.submitted, _ready)
        with pytest.raises(RecoveryRefusedError):
            await engine.recover(wrong)
        assert engine.view.phase is Phase.RECOVERY
        view = await engine.recover(right)
        assert view.phase is Phase.RUNNING
