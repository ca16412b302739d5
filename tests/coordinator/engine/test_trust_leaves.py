"""Leaves about revocations and marble roots: with their event, and only if necessary."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.living.renewal import LIVING, Living, living, living_manifest
from support.public_log import Published, published
from support.samples.activation import marble_manifest
from support.samples.deployment import NOW, FixedClock, user

from keyhouse.base.errors import NotFoundError
from keyhouse.coordinator import InitiateUpdate, SentUpdate, UpdatePackages, prepare_update
from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.commands import RevokeWorkloads
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import Scope
from keyhouse.coordinator.engine.commits import decide_batch
from keyhouse.coordinator.engine.work_queue import Decision, WaitingCommand
from keyhouse.transparency.leaf import TrustLeaf, hidden_in_leaf, object_name, read_leaf

HOUR = 3600 * 1_000_000
PLATFORM = bytes.fromhex("a3" * 16)
RAISED = b'{"Packages": {"app": {"SecurityVersion": 2}}}'


def overlapping(word: str) -> bytes:
    return living_manifest(Config={"Trust": {"OverlapHours": 24}}, TLS={word: {}})


async def update(deployed: Living, raw: bytes) -> None:
    sent = SentUpdate(user("admin").der, raw)
    command = prepare_update(deployed.engine.view.running, sent, now=deployed.engine.current.now())
    assert isinstance(command, InitiateUpdate | UpdatePackages)
    await deployed.engine.submit(command)


def revoking(scope: Scope, marble_type: str = "", name: str = "", **more: Any) -> RevokeWorkloads:
    return RevokeWorkloads(user("admin").der, scope, marble_type, name, **more, reason="private")


def trust_of(found: Published) -> list[TrustLeaf]:
    return [leaf for leaf in found.leaves if isinstance(leaf, TrustLeaf)]


def root_of(deployed: Living) -> str:
    return object_name(deployed.engine.view.running.keys.marble_root_cert)


async def test_each_revocation_has_its_leaf(tmp_path: Path) -> None:
    clock = FixedClock()
    async with living(tmp_path, clock=clock) as deployed:
        workload = await deployed.activate()
        clock.let_pass(HOUR)
        await deployed.engine.submit(revoking(Scope.WORKLOAD, "web", workload.marble))
        await deployed.engine.submit(revoking(Scope.TYPE, "web"))
        await deployed.engine.submit(revoking(Scope.PLATFORM, platform=PLATFORM))
        await deployed.engine.submit(revoking(Scope.PLATFORM, platform=PLATFORM))  # no event
        with pytest.raises(NotFoundError):
            await deployed.engine.submit(revoking(Scope.WORKLOAD, "web", "1" * 36))
        found = await published(deployed.engine)
    roots, *revoked = trust_of(found)
    assert roots.subjects == (("in-force", root_of(deployed)),)
    assert [leaf.subjects for leaf in revoked] == [
        (("workload", "web", hidden_in_leaf(workload.marble)),),
        (("type", "web"),),
        (("platform", hidden_in_leaf("a3" * 16)),),
    ]
    for leaf in revoked:
        assert (leaf.what, leaf.user, leaf.time) == ("revoked", "admin", NOW + HOUR)
        assert leaf.certificate == object_name(user("admin").der)
    # The log is public: it has neither reasons nor the ids of workloads and machines.
    public = b"".join(found.entries)
    for private in (b"private", workload.marble.encode(), b"a3" * 16):
        assert private not in public


async def test_a_revocation_and_its_leaf_are_one_append(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        await deployed.activate()
        state = deployed.engine.view.running
    context = Context(
        platform="test", instance=bytes(16), version="1", measurement=bytes(32), now=NOW
    )
    answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
    waiting = WaitingCommand(revoking(Scope.TYPE, "web"), answer)
    decided = decide_batch([waiting], state, context)
    revoked, leaves = decided.events
    assert isinstance(revoked, events.WorkloadsRevoked)
    assert isinstance(leaves, events.Published)
    (leaf,) = map(read_leaf, leaves.leaves)
    assert isinstance(leaf, TrustLeaf)
    answer.cancel()


async def test_each_change_of_the_marble_root_has_its_leaf(tmp_path: Path) -> None:
    clock = FixedClock()
    roots: list[str] = []
    async with living(tmp_path, overlapping("a"), clock=clock) as deployed:
        roots.append(root_of(deployed))
        for word in ("b", "c"):
            await update(deployed, overlapping(word))
            roots.append(root_of(deployed))
        await update(deployed, RAISED)
        roots.append(root_of(deployed))
        found = await published(deployed.engine)
    a, b, c, d = roots
    end = str(NOW + 24 * HOUR)
    assert [leaf.subjects for leaf in trust_of(found)] == [
        (("in-force", a),),
        (("in-force", b), ("former", a, end)),
        (("in-force", c), ("former", a, end), ("former", b, end)),
        (("in-force", d),),
    ]
    kinds = found.kinds
    for place in (index for index, kind in enumerate(kinds) if kind == "Trust"):
        assert kinds[place - 1] in {"ManifestSet", "ManifestUpdated", "PackagesUpdated"}


async def test_the_leaf_exists_only_under_living_manifests(tmp_path: Path) -> None:
    plain = marble_manifest()
    async with living(tmp_path, plain) as deployed:
        assert not trust_of(await published(deployed.engine))
        await update(deployed, LIVING)
        await update(deployed, plain)
        first, last = trust_of(await published(deployed.engine))
        assert last.subjects == (("in-force", root_of(deployed)),)
        assert first.subjects != last.subjects
        await update(deployed, RAISED)
        assert len(trust_of(await published(deployed.engine))) == 2
