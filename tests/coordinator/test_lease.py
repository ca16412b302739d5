"""The lease: cosignatures let a coordinator serve for a time and a number of operations."""

import asyncio
from typing import Any

import msgspec
import pytest
from support.cosigner import Cosigner
from support.samples.deployment import FixedClock, manifest

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import PublicLog, Running
from keyhouse.coordinator.lease import MOST_WAITING, HeldError, Lease, Left
from keyhouse.manifest import Anchored
from keyhouse.manifest.model import LEASE_SECONDS
from keyhouse.transparency.tree import Frontier

SECOND = 1_000_000
MILLISECOND = 1_000
OWN = b"i" * 16
POLICY = f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n"
OTHER = f"witness V {Cosigner.ed25519().verifier} https://v.example\nquorum V\n"


def state(size: int, **rules: Any) -> Running:
    """Return a state with a log of ``size`` leaves, under a manifest with these rules."""
    given = {"Witnesses": POLICY, "Serve": "Witnessed", "LeaseOperations": 10, **rules}
    log = PublicLog(Secret(bytes(32)), "log+00000000+AA", b"", Frontier(size))
    raw = manifest(Transparency=given) if rules.get("Witnesses") != "" else manifest()
    return msgspec.structs.replace(_RUNNING, manifest=raw, instance=OWN, public_log=log)


_NOT_READ: dict[str, Any] = dict.fromkeys(Running.__struct_fields__)
_RUNNING = Running(**_NOT_READ)


def replaced(*former: str) -> Running:
    """Return a state with other witnesses; the ``former`` witnesses must cosign before them."""
    found = state(4, Witnesses=OTHER)
    assert found.public_log is not None
    return msgspec.structs.replace(
        found, public_log=msgspec.structs.replace(found.public_log, former=former)
    )


def started(size: int = 3) -> tuple[Lease, FixedClock]:
    clock = FixedClock()
    lease = Lease(clock.elapsed, OWN)
    lease.follow(state(size))
    return lease, clock


def test_nothing_is_served_before_the_start_is_cosigned() -> None:
    lease, _ = started()
    with pytest.raises(HeldError, match="the start"):
        lease.charge()
    lease.on_quorum(2, b"a checkpoint without the leaf of the start")
    with pytest.raises(HeldError, match="the start"):
        lease.charge()
    lease.on_quorum(3, b"a checkpoint")
    lease.charge()


def test_the_leaf_of_another_replica_is_no_proof_of_this_start() -> None:
    """A replica follows other writers before its own start is in the log."""
    lease = Lease(FixedClock().elapsed, OWN)
    for size in (3, 4):
        lease.follow(msgspec.structs.replace(state(size), instance=b"o" * 16))
        lease.on_quorum(size, b"a checkpoint")
        with pytest.raises(HeldError, match="the start"):
            lease.charge()
    lease.follow(state(5))
    lease.on_quorum(5, b"a checkpoint")
    lease.charge()


def test_without_witnesses_nothing_is_held_and_nobody_waits() -> None:
    lease = Lease(FixedClock().elapsed, OWN)
    lease.follow(state(3, Witnesses=""))
    lease.charge()
    assert (lease.policies, lease.work.is_set(), lease.note) == ((), False, "")
    assert asyncio.run(lease.wait_cosigned()) is None


def test_a_start_long_after_the_process_has_its_whole_lease() -> None:
    clock = FixedClock()
    lease = Lease(clock.elapsed, OWN)
    clock.let_pass(7200 * SECOND)  # the wait for a manifest, or in recovery mode
    lease.begin()
    lease.follow(state(3))
    lease.on_quorum(3, b"")
    lease.charge()
    clock.let_pass(3599 * SECOND)
    lease.begin()  # a later decision does not renew the lease
    clock.let_pass(SECOND)
    with pytest.raises(HeldError):
        lease.charge()


def test_the_time_of_a_lease_begins_before_it_is_asked_for() -> None:
    lease, clock = started()
    clock.let_pass((LEASE_SECONDS - 100) * SECOND)
    lease.on_quorum(3, b"")
    clock.let_pass(99 * SECOND)
    assert lease.is_due
    lease.charge()
    clock.let_pass(SECOND)
    with pytest.raises(HeldError, match="for too long"):
        lease.charge()


def test_an_anchor_renews_both_bounds_from_when_it_was_begun() -> None:
    lease, _ = started()
    lease.on_quorum(3, b"")
    for _ in range(5):
        lease.charge()
    assert lease.is_due is True
    made = lease.mark()
    lease.charge()
    lease.on_anchor(4, made, lease.take_waiters())
    lease.follow(state(4))
    assert (lease.is_due, lease.is_behind) == (False, True)
    lease.on_quorum(4, b"")
    for _ in range(9):
        lease.charge()
    with pytest.raises(HeldError):
        lease.charge()


def test_leaves_without_random_bytes_renew_nothing() -> None:
    lease, _ = started()
    lease.on_quorum(3, b"")
    for size in range(4, 14):
        lease.charge()
        lease.follow(state(size))
        lease.on_quorum(size, b"")
    with pytest.raises(HeldError):
        lease.charge()


def test_only_so_many_leaves_wait() -> None:
    lease, _ = started()
    lease.on_quorum(3, b"")
    lease.follow(state(3 + MOST_WAITING))
    lease.charge()
    lease.follow(state(4 + MOST_WAITING))
    with pytest.raises(HeldError):
        lease.charge()


def test_a_refusal_that_lasts_outlives_a_lease() -> None:
    lease, _ = started()
    lease.on_quorum(3, b"")
    lease.on_refusal("no quorum", lasting=False)
    lease.charge()
    lease.on_refusal("forked", lasting=True)
    with pytest.raises(HeldError, match="forked"):
        lease.charge()
    assert lease.note == "held: forked"


def test_who_waits_is_told_when_no_witness_will_cosign_any_more() -> None:
    async def wait() -> list[bool | None]:
        lease, _ = started()
        lease.follow(state(3, AnchorBefore=["Counters"]))
        waiting = [
            lease.wait_cosigned(patience=60.0),
            lease.anchor(Anchored.COUNTERS, patience=60.0),
        ]
        tasks = [asyncio.create_task(each) for each in waiting]
        await asyncio.sleep(0)
        lease.on_refusal("forked", lasting=True)
        late = [lease.wait_cosigned(patience=60.0), lease.anchor(Anchored.COUNTERS, patience=60.0)]
        return [await each for each in (*tasks, *late)]

    assert asyncio.run(wait()) == [False] * 4


def test_other_witnesses_begin_where_those_before_agree() -> None:
    lease, _ = started()
    lease.on_quorum(3, b"")
    lease.follow(replaced(POLICY))
    assert [each.witnesses[0].name for each in lease.policies] == ["W", "V"]
    with pytest.raises(HeldError):
        lease.charge()
    lease.on_quorum(4, b"")
    lease.charge()
    lease.follow(replaced())
    assert [each.witnesses[0].name for each in lease.policies] == ["V"]
    lease.charge()


def test_what_waits_for_an_anchor_is_told_when_it_is_cosigned() -> None:
    async def wait() -> list[bool | None]:
        lease, _ = started()
        rules = {"AnchorBefore": ["Counters"]}
        lease.follow(state(3, **rules))
        lease.on_quorum(3, b"")
        first = asyncio.create_task(lease.anchor(Anchored.COUNTERS))
        await asyncio.sleep(0)
        assert lease.is_due
        lease.on_anchor(4, lease.mark(), lease.take_waiters())
        lease.follow(state(4, **rules))
        late = asyncio.create_task(lease.anchor(Anchored.COUNTERS, patience=0))
        all_of_it = asyncio.create_task(lease.wait_cosigned())
        await asyncio.sleep(0)
        lease.on_quorum(4, b"")
        unasked = await lease.anchor(Anchored.LIMITED_ACTIVATIONS)
        return [await first, await late, await all_of_it, unasked]

    assert asyncio.run(wait()) == [True, False, True, False]


def test_an_operation_with_a_leaf_waits_only_if_the_manifest_names_it() -> None:
    async def wait(rules: dict[str, object]) -> list[bool | None]:
        lease, _ = started()
        lease.follow(state(3, **rules))
        waiting = asyncio.create_task(lease.wait_if_anchored(Anchored.REVOCATIONS))
        await asyncio.sleep(0)
        before = waiting.done()
        lease.on_quorum(3, b"")
        return [before, await waiting]

    assert asyncio.run(wait({"AnchorBefore": ["Revocations"]})) == [False, True]
    assert asyncio.run(wait({"AnchorBefore": ["Counters"]})) == [True, None]


def test_the_rest_of_a_lease_ends_with_it() -> None:
    lease, clock = started()
    assert lease.left == Left(0, 0)
    lease.on_quorum(3, b"")
    assert lease.left == Left(LEASE_SECONDS, 10)
    clock.let_pass(1500 * MILLISECOND)
    lease.charge()
    assert lease.left == Left(LEASE_SECONDS - 2, 9)
    clock.let_pass(LEASE_SECONDS * SECOND)
    assert lease.left == Left(0, 0)


def test_nobody_counts_single_reads_by_the_rest_of_a_lease() -> None:
    clock = FixedClock()
    lease = Lease(clock.elapsed, OWN)
    lease.follow(state(3, LeaseOperations=1000))
    lease.on_quorum(3, b"")
    seen = []
    for _ in range(101):
        lease.charge()
        assert lease.left is not None
        seen.append(lease.left.operations)
    assert set(seen) == {900, 800}


def test_without_witnesses_there_is_no_lease() -> None:
    lease = Lease(FixedClock().elapsed, OWN)
    lease.follow(state(3, Witnesses=""))
    assert lease.left is None
