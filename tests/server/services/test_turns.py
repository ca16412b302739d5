"""Who waits for what is costly: a bounded number, and nobody else is kept waiting by them."""

import asyncio
import threading
from pathlib import Path

import pytest
from support.samples.activation import deployment, marble_manifest
from support.samples.deployment import running_engine, set_manifest, user
from support.samples.updates import together

from keyhouse.coordinator.core.policy import FEW
from keyhouse.server.net.concurrency import (
    BoundedExecutor,
    ConcurrencyLimit,
    FairQueue,
    TooManyRequestsError,
)
from keyhouse.server.services.manifests import PLANS, Preparation, Proposal, Updates


async def test_a_place_is_free_again_after_success_failure_and_a_caller_who_left() -> None:
    turns = BoundedExecutor("test", ConcurrencyLimit(2, "too many"))
    release = threading.Event()
    first, second = (asyncio.create_task(turns.run(release.wait)) for _ in range(2))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequestsError, match="too many"):
        await turns.run(int)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    release.set()
    assert await first
    with pytest.raises(ZeroDivisionError):
        await turns.run(lambda: 1 // 0)
    assert [await turns.run(int) for _ in range(3)] == [0, 0, 0]
    turns.close()


async def test_each_client_that_waits_has_a_turn_before_one_has_its_second() -> None:
    executor = BoundedExecutor("test", ConcurrencyLimit(100, "too many"))
    release, ran = threading.Event(), list[str]()
    first = asyncio.create_task(executor.run(release.wait, "greedy"))
    await asyncio.sleep(0)
    greedy = [executor.run(lambda: ran.append("greedy"), "greedy") for _ in range(50)]
    waiting = [asyncio.create_task(each) for each in greedy]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(executor.run(lambda: ran.append("modest"), "modest")))
    waiting.append(asyncio.create_task(executor.run(lambda: ran.append("nameless"))))
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(first, *waiting)
    assert ran[:4] == ["greedy", "modest", "nameless", "greedy"]
    assert len(ran) == 52
    executor.close()


async def test_callers_who_leave_before_their_turn_have_nothing_done() -> None:
    queue = FairQueue(ConcurrencyLimit(4, "too many"))
    begun, gate = list[str](), asyncio.Event()

    async def work(name: str) -> None:
        begun.append(name)
        await gate.wait()

    first, *left = (asyncio.create_task(queue.run(lambda: work("early"))) for _ in range(4))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequestsError):
        await queue.run(lambda: work("late"))
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    last = asyncio.create_task(queue.run(lambda: work("last")))
    gate.set()
    await asyncio.gather(first, last)
    assert begun == ["early", "last"]


async def test_a_caller_who_leaves_as_its_turn_comes_passes_it_on() -> None:
    queue = FairQueue(ConcurrencyLimit(3, "too many"))
    gate = asyncio.Event()
    first, second, third = (asyncio.create_task(queue.run(gate.wait)) for _ in range(3))
    await asyncio.sleep(0)
    first.add_done_callback(lambda _: second.cancel())  # its turn has come, it does not run yet
    gate.set()
    assert await third
    await asyncio.gather(second, return_exceptions=True)
    assert await queue.run(gate.wait)


async def test_what_has_begun_ends_before_the_next_turn_though_its_caller_left() -> None:
    executor = BoundedExecutor("test", ConcurrencyLimit(9, "too many"))
    begun, release, ran = threading.Event(), threading.Event(), list[str]()

    def slow() -> None:
        begun.set()
        release.wait(20)
        ran.append("slow")

    leaving = asyncio.create_task(executor.run(slow))
    assert await asyncio.to_thread(begun.wait, 20)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    following = asyncio.create_task(executor.run(lambda: ran.append("following")))
    await asyncio.sleep(0)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    last = asyncio.create_task(executor.run(lambda: ran.append("last")))
    await asyncio.sleep(0)
    release.set()
    await last
    assert ran == ["slow", "last"]
    executor.close()


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
        with pytest.raises(TooManyRequestsError):
            await plan("bob")
        agreed = await updates.propose(user("bob").der, lambda: Proposal(new))
        assert agreed.missing_users == ("alice", "carol")
        assert await asyncio.to_thread(begun.wait, 20)
        assert len(began) == 1
        release.set()
        assert len(set(await asyncio.gather(*plans))) == 1
        updates.close()
        preparation.close()


async def test_slow_certificates_of_one_workload_keep_no_other_waiting(tmp_path: Path) -> None:
    leaves = [f"leaf{number}" for number in range(FEW + 1)]
    shown = {name: f"{{{{ pem .Secrets.{name}.Cert }}}}" for name in leaves}
    raw = marble_manifest(
        {"slow": {"Package": "app", "Parameters": {"Env": shown}}, "web": {"Package": "app"}},
        Secrets={name: {"Type": "cert-ed25519"} for name in leaves},
    )
    joined = list[str]()

    async with deployment(tmp_path, raw) as opened:

        async def join(marble_type: str, name: str) -> None:
            await opened.join(marble_type, identity=user(name).der)
            joined.append(name)

        greedy = [join("slow", "greedy") for _ in range(4)]
        await asyncio.gather(*greedy, join("slow", "modest"), join("web", "quick"))
    assert joined == ["quick", "greedy", "greedy", "modest", "greedy", "greedy"]
