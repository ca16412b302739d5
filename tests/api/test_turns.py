"""Who waits for what is costly: a bounded number, and nobody else is kept waiting by them."""

import asyncio
import threading
from pathlib import Path

import pytest
from support.samples.deployment import running_engine, set_manifest, user
from support.samples.updates import together

from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, TooMany
from keyhouse.server.services.preparation import Preparation
from keyhouse.server.services.updates import PLANS, Proposal, Updates


async def test_a_place_is_free_again_after_success_failure_and_a_caller_who_left() -> None:
    turns = BoundedExecutor("test", ConcurrencyLimit(2, "too many"))
    release = threading.Event()
    first, second = (asyncio.create_task(turns.take(release.wait)) for _ in range(2))
    await asyncio.sleep(0)
    with pytest.raises(TooMany, match="too many"):
        await turns.take(int)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    release.set()
    assert await first
    with pytest.raises(ZeroDivisionError):
        await turns.take(lambda: 1 // 0)
    assert [await turns.take(int) for _ in range(3)] == [0, 0, 0]
    turns.close()


async def test_plans_are_made_one_at_a_time_and_keep_no_update_waiting(tmp_path: Path) -> None:
    new, began = together(word="new"), list[bytes]()
    begun, release = threading.Event(), threading.Event()

    def slow() -> bytes:
        began.append(new)
        begun.set()
        release.wait(20)
        return new

    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, together())
        preparation = Preparation(engine)
        updates = Updates(engine, preparation)

        async def plan(name: str) -> str:
            found, _ = await updates.plan(user(name).der, slow)
            return found.digest

        plans = [asyncio.create_task(plan("alice")) for _ in range(PLANS)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany, match="plans"):
            await plan("bob")
        agreed = await updates.propose(user("bob").der, lambda: Proposal(new))
        assert agreed.missing_users == ("alice", "carol")
        assert await asyncio.to_thread(begun.wait, 20)
        assert len(began) == 1
        release.set()
        assert len(set(await asyncio.gather(*plans))) == 1
        updates.close()
        preparation.close()
