"""Who waits for what is costly: a bounded number, and nobody else is kept waiting by them."""

import asyncio
import threading
from pathlib import Path

import pytest
from support.peers.client_api import head_of, service_of
from support.samples.deployment import running_engine, set_manifest
from support.samples.updates import together

from keyhouse.server.client_api import changes
from keyhouse.server.client_api.service import PLANS
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit, TooMany


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

    def slow(body: bytes) -> bytes:
        began.append(body)
        begun.set()
        release.wait(20)
        return body

    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, together())
        service = service_of(engine)

        async def plan(name: str) -> str:
            found, _ = await changes.plan_update(service, head_of(name), new, slow)
            return found.digest

        plans = [asyncio.create_task(plan("alice")) for _ in range(PLANS)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany, match="plans"):
            await plan("bob")
        sent = changes.Proposal(new)
        agreed = await changes.update_manifest(service, head_of("bob"), new, lambda _: sent)
        assert agreed.missing_users == ("alice", "carol")
        assert await asyncio.to_thread(begun.wait, 20)
        assert len(began) == 1
        release.set()
        assert len(set(await asyncio.gather(*plans))) == 1
        service.close()
