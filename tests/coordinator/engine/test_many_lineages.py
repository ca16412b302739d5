"""Decisions that walk all lineages run off the event loop if there are many lineages."""

import threading
from pathlib import Path
from typing import Self

import pytest
from immutables import Map
from msgspec.structs import replace
from support.living.renewal import LIVING, Living, living
from support.samples.deployment import FixedClock, user

from keyhouse.coordinator import InitiateUpdate, SentUpdate, prepare_update
from keyhouse.coordinator.core.commands import RevokeWorkloads
from keyhouse.coordinator.core.events import Event, Scope
from keyhouse.coordinator.core.lineages import INLINE, MOST, LineagesFullError
from keyhouse.coordinator.core.state import Lineage, Running, Standing
from keyhouse.coordinator.engine.records import applied, encode_events

REVOKED = b"\x07" * 16


class Platform(bytes):
    """A platform id that records the threads of its comparisons."""

    threads: set[int]

    def __new__(cls, value: bytes, threads: set[int]) -> Self:
        made = super().__new__(cls, value)
        made.threads = threads
        return made

    def __eq__(self, other: object) -> bool:
        self.threads.add(threading.get_ident())
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()


class End(int):
    """The end of a certificate that records the threads of its additions."""

    threads: set[int]

    def __new__(cls, value: int, threads: set[int]) -> Self:
        made = super().__new__(cls, value)
        made.threads = threads
        return made

    def __add__(self, other: int) -> int:
        self.threads.add(threading.get_ident())
        return super().__add__(other)


def hold(deployed: Living, count: int, end: int = 0) -> set[int]:
    """Give the state of ``deployed`` ``count`` lineages, which ended at ``end``.

    Return the set of threads that walk these lineages.
    """
    threads: set[int] = set()
    current = deployed.engine.current
    ended, platform = End(end, threads), Platform(REVOKED, threads)
    held = {
        number.to_bytes(16): Lineage("web", f"workload {number}", platform, bytes(32), ended)
        for number in range(count)
    }
    state = replace(deployed.engine.view.running, lineages=Map(held))
    current.publish(state, ())
    threads.clear()
    return threads


@pytest.mark.parametrize(("count", "inline"), [(INLINE, True), (INLINE + 1, False)])
async def test_a_revocation_among_many_lineages_leaves_the_event_loop_free(
    tmp_path: Path,
    count: int,
    inline: bool,  # noqa: FBT001 a column of the table
) -> None:
    async with living(tmp_path) as deployed:
        threads = hold(deployed, count)
        command = RevokeWorkloads(user("admin").der, Scope.PLATFORM, "", "", REVOKED, "lost")
        view = await deployed.engine.submit(command)
        assert (threads == {threading.get_ident()}) is inline
        assert len(threads) == 1
        lineages = view.running.lineages.values()
        assert {each.standing for each in lineages} == {Standing.REVOKED}


async def test_an_activation_at_the_maximum_of_lineages_leaves_the_event_loop_free(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as deployed:
        threads = hold(deployed, MOST)
        await deployed.activate()
        assert threading.get_ident() not in threads
        assert threads
        assert len(deployed.engine.view.running.lineages) == 1


async def test_activations_below_the_maximum_walk_no_lineages(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        threads = hold(deployed, MOST - 1)
        await deployed.activate()
        assert not threads


async def test_after_a_refusal_for_want_of_room_the_next_activations_walk_no_lineages(
    tmp_path: Path,
) -> None:
    clock = FixedClock()
    async with living(tmp_path, clock=clock) as deployed:
        threads = hold(deployed, MOST, end=deployed.engine.current.now())
        with pytest.raises(LineagesFullError):
            await deployed.activate()
        assert threads
        threads.clear()
        with pytest.raises(LineagesFullError):
            await deployed.activate()
        assert not threads
        clock.let_pass(11_000_000)
        with pytest.raises(LineagesFullError):
            await deployed.activate()
        assert threads


async def test_an_update_among_many_lineages_leaves_the_event_loop_free(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        threads = hold(deployed, INLINE + 1)
        sent = SentUpdate(user("admin").der, LIVING)
        command = prepare_update(
            deployed.engine.view.running, sent, now=deployed.engine.current.now()
        )
        assert isinstance(command, InitiateUpdate)
        view = await deployed.engine.submit(command)
        assert threading.get_ident() not in threads
        assert len(threads) == 1
        assert not view.running.lineages


async def test_another_writers_revocation_among_many_lineages_is_applied_in_a_thread(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as deployed:
        command = RevokeWorkloads(user("admin").der, Scope.PLATFORM, "", "", REVOKED, "lost")
        revoked: list[Event] = []
        deployed.engine.current.on_events.append(revoked.extend)
        await deployed.engine.submit(command)
        payloads = [each for event in revoked[:1] for each in encode_events([event])]
        threads = hold(deployed, INLINE + 1)
        after, _ = await applied(deployed.engine.view.running, payloads)
        assert threading.get_ident() not in threads
        assert len(threads) == 1
        assert isinstance(after, Running)
        assert {each.standing for each in after.lineages.values()} == {Standing.REVOKED}
