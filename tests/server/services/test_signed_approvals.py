"""Approvals that users sign: which count, and what the log says of them."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec.structs import replace
from support.samples.deployment import running_engine, set_manifest, upload, user
from support.samples.updates import raise_version, together

from keyhouse.base.errors import NotFoundError
from keyhouse.coordinator import (
    AcknowledgeUpdate,
    ApprovalOutdatedError,
    ApprovalRefusedError,
    CancelUpdate,
    Engine,
)
from keyhouse.coordinator.core.approvals import ApprovalMissingError
from keyhouse.coordinator.update.prepare import PlanChangedError
from keyhouse.manifest import fingerprint
from keyhouse.server.services.manifests import Agreement, Preparation, Proposal, Updates
from keyhouse.transparency import leaf
from keyhouse.transparency.approval import Approval, DecisionKind, SignedApproval, TreeHead
from keyhouse.transparency.leaf import object_name, read_leaf
from keyhouse.transparency.sign_approval import sign_approval, signature_by
from keyhouse.transparency.tiles import ENTRIES, Tile, bundled
from keyhouse.transparency.tree import EMPTY_ROOT

FIRST, NEW, OTHER = together(), together(word="new"), together(word="other")
HASH = "ab" * 32
DECIDED = (
    leaf.UpdateProposedLeaf,
    leaf.UpdateApprovedLeaf,
    leaf.UpdateCancelledLeaf,
    leaf.PackagesUpdatedLeaf,
)


def signed(approval: Approval, by: str) -> bytes:
    key = load_pem_private_key(user(by).key_pem, None)
    return sign_approval(approval, lambda message: signature_by(key, message))


class People(NamedTuple):
    """Users of a coordinator, who sign what they decide."""

    engine: Engine
    updates: Updates

    @property
    def head(self) -> TreeHead:
        log = self.engine.view.running.public_log
        assert log is not None
        return TreeHead(log.frontier.size, log.frontier.root.hex())

    async def leaves(self) -> list[leaf.Leaf]:
        """Return the leaves, of which there is less than a tile."""
        raw = await self.engine.writer.public_log.tile(Tile(ENTRIES, 0, self.head.size))
        return [read_leaf(entry) for entry in bundled(raw, self.head.size)]

    def approval(self, by: str, decision: DecisionKind, sent: bytes, **other: Any) -> Approval:
        state = self.engine.view.running
        assert state.public_log is not None
        found = Approval(
            origin=state.public_log.origin,
            root=hashlib.sha256(state.keys.root_cert).hexdigest(),
            decision=decision,
            user=by,
            base=fingerprint(state.manifest),
            manifest=fingerprint(sent),
            plan="",
            head=self.head,
            time=1_790_000_000_000_000,
        )
        return replace(found, **other)

    async def propose(
        self, by: str, raw: bytes, envelope: bytes | None, plan: str = ""
    ) -> Agreement:
        sent = Proposal(raw, plan, envelope)
        return await self.updates.propose(user(by).der, lambda: sent)

    async def approve(
        self, by: str, raw: bytes, envelope: bytes | None, plan: str = ""
    ) -> Agreement:
        sent = Proposal(raw, plan, envelope)
        return await self.updates.acknowledge(user(by).der, lambda: sent)

    async def cancel(self, by: str, envelope: bytes | None) -> Agreement:
        return await self.updates.cancel(user(by).der, lambda: envelope)

    def sign(self, by: str, decision: DecisionKind, sent: bytes, **other: Any) -> bytes:
        return signed(self.approval(by, decision, sent, **other), by)


@asynccontextmanager
async def people(path: Path, first: bytes = FIRST) -> AsyncIterator[People]:
    async with running_engine(path) as engine:
        await set_manifest(engine, first)
        preparation = Preparation(engine)
        updates = Updates(engine, preparation)
        try:
            yield People(engine, updates)
        finally:
            updates.close()
            preparation.close()


async def test_the_log_has_what_each_has_signed(tmp_path: Path) -> None:
    async with people(tmp_path) as they:
        plan = (await they.updates.plan(user("alice").der, lambda: NEW))[0].digest
        first = they.sign("alice", DecisionKind.PROPOSE, NEW, plan=plan)
        assert (await they.propose("alice", NEW, first, plan)).missing == 1
        cancelled = they.sign("bob", DecisionKind.CANCEL, NEW)
        await they.cancel("bob", cancelled)
        again = they.sign("alice", DecisionKind.PROPOSE, NEW)
        await they.propose("alice", NEW, again)
        approved = they.sign("bob", DecisionKind.APPROVE, NEW)
        assert (await they.approve("bob", NEW, approved)).missing == 0
        raised = they.sign("releaser", DecisionKind.PACKAGES, raise_version(4))
        await they.propose("releaser", raise_version(4), raised)
        said = [each for each in await they.leaves() if isinstance(each, DECIDED)]
        assert [(each.user, each.approval) for each in said] == [
            ("alice", object_name(first)),
            ("bob", object_name(cancelled)),
            ("alice", object_name(again)),
            ("bob", object_name(approved)),
            ("releaser", object_name(raised)),
        ]
        proposed = said[0]
        assert isinstance(proposed, leaf.UpdateProposedLeaf)
        assert proposed.plan == plan
        for envelope in (first, cancelled, again, approved, raised, raise_version(4)):
            assert await they.engine.writer.public_log.object(object_name(envelope)) == envelope
        for each, envelope in zip(said, (first, cancelled, again, approved, raised), strict=True):
            SignedApproval.read(envelope).verify(user(each.user).der)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"origin": "keyhouse/other"}, "origin"),
        ({"root": HASH}, "root"),
        ({"decision": DecisionKind.APPROVE}, "decision"),
        ({"decision": DecisionKind.PACKAGES}, "decision"),
        ({"user": "bob"}, "user"),
        ({"manifest": fingerprint(OTHER)}, "manifest"),
        ({"plan": HASH}, "plan"),
    ],
    ids=["origin", "root", "approve", "packages", "user", "manifest", "plan"],
)
async def test_an_approval_moved_to_another_request_is_refused(
    tmp_path: Path, other: dict[str, Any], named: str
) -> None:
    async with people(tmp_path) as they:
        moved = signed(replace(they.approval("alice", DecisionKind.PROPOSE, NEW), **other), "alice")
        with pytest.raises(ApprovalRefusedError) as refused:
            await they.propose("alice", NEW, moved)
        assert refused.value.fields["approval"].endswith(f": {named}")
        assert they.engine.view.running.pending is None


async def test_an_approval_by_another_key_or_of_other_bytes_is_refused(tmp_path: Path) -> None:
    async with people(tmp_path) as they:
        approval = they.approval("alice", DecisionKind.PROPOSE, NEW)
        good = signed(approval, "alice")
        other = signed(replace(approval, time=1), "alice")
        between = b'","payloadType"'
        moved = good.partition(between)[0] + between + other.partition(between)[2]
        for envelope in (signed(approval, "bob"), moved, good + b" ", b"", b"{}"):
            with pytest.raises(ApprovalRefusedError):
                await they.propose("alice", NEW, envelope)
        with pytest.raises(ApprovalRefusedError):  # alice's, sent by bob
            await they.propose("bob", NEW, good)
        await they.propose("alice", NEW, good)


async def test_approval_of_another_head(tmp_path: Path) -> None:
    async with people(tmp_path) as they:
        size = they.head.size
        for head, refusal in (
            (TreeHead(size, HASH), ApprovalRefusedError),
            (TreeHead(size - 1, they.head.root), ApprovalRefusedError),
            (TreeHead(0, HASH), ApprovalRefusedError),
            (TreeHead(0, EMPTY_ROOT.hex()), ApprovalOutdatedError),
            (TreeHead(size + 1, HASH), ApprovalOutdatedError),
        ):
            other = they.sign("alice", DecisionKind.PROPOSE, NEW, head=head)
            with pytest.raises(refusal):
                await they.propose("alice", NEW, other)
        old = they.sign("alice", DecisionKind.PROPOSE, NEW)
        for number in range(300):  # more than a tile: its head is read from the files
            await upload(they.engine, {"note": b"%d" % number})
        assert (await they.propose("alice", NEW, old)).missing == 1


async def test_approval_replayed(tmp_path: Path) -> None:
    async with people(tmp_path) as they:
        proposal = they.sign("alice", DecisionKind.PROPOSE, NEW)
        early = they.sign("bob", DecisionKind.APPROVE, NEW)
        await they.propose("alice", NEW, proposal)
        with pytest.raises(ApprovalOutdatedError):
            await they.approve("bob", NEW, early)  # signed before there was a proposal
        cancellation = they.sign("bob", DecisionKind.CANCEL, NEW)
        approval = they.sign("bob", DecisionKind.APPROVE, NEW)
        await they.cancel("bob", cancellation)
        with pytest.raises(ApprovalOutdatedError):
            await they.propose("alice", NEW, proposal)
        with pytest.raises(NotFoundError):
            await they.cancel("bob", cancellation)
        await they.propose("alice", NEW, they.sign("alice", DecisionKind.PROPOSE, NEW))
        with pytest.raises(ApprovalOutdatedError):
            await they.cancel("bob", cancellation)
        with pytest.raises(ApprovalOutdatedError):
            await they.approve("bob", NEW, approval)
        await they.approve("bob", NEW, they.sign("bob", DecisionKind.APPROVE, NEW))
        package = raise_version(4)
        raised = they.sign("releaser", DecisionKind.PACKAGES, package)
        await they.propose("releaser", package, raised)
        with pytest.raises(ApprovalOutdatedError):
            await they.propose("releaser", package, raised)


async def test_an_approval_moved_to_another_base_is_refused(tmp_path: Path) -> None:
    async with people(tmp_path) as they:
        old = they.sign("alice", DecisionKind.PROPOSE, OTHER)
        of_old = they.approval("alice", DecisionKind.PROPOSE, OTHER)
        await they.propose("alice", NEW, they.sign("alice", DecisionKind.PROPOSE, NEW))
        await they.approve("bob", NEW, they.sign("bob", DecisionKind.APPROVE, NEW))
        newer = signed(replace(of_old, head=they.head), "alice")
        for envelope in (old, newer):
            with pytest.raises(ApprovalOutdatedError):
                await they.propose("alice", OTHER, envelope)


async def test_an_approval_moved_to_another_plan_is_refused(tmp_path: Path) -> None:
    async with people(tmp_path) as they:
        with pytest.raises(ApprovalRefusedError):
            await they.propose("alice", NEW, they.sign("alice", DecisionKind.PROPOSE, NEW), HASH)
        envelope = they.sign("alice", DecisionKind.PROPOSE, NEW, plan=HASH)
        with pytest.raises(PlanChangedError):
            await they.propose("alice", NEW, envelope, HASH)


async def test_several_can_sign_at_the_same_time(tmp_path: Path) -> None:
    first = together(UpdateThreshold=3)
    async with people(tmp_path) as they:
        await they.propose("alice", first, they.sign("alice", DecisionKind.PROPOSE, first))
        bob = they.sign("bob", DecisionKind.APPROVE, first)
        carol = they.sign("carol", DecisionKind.APPROVE, first)
        assert (await they.approve("bob", first, bob)).missing == 0
        again = they.sign("alice", DecisionKind.PROPOSE, NEW)
        await they.propose("alice", NEW, again)
        bob, carol = (they.sign(name, DecisionKind.APPROVE, NEW) for name in ("bob", "carol"))
        assert (await they.approve("bob", NEW, bob)).missing == 1
        assert (await they.approve("carol", NEW, carol)).missing == 0


async def test_a_manifest_that_demands_signed_approvals_takes_no_other(tmp_path: Path) -> None:
    duty = {"SignedApprovals": True}
    first, new = together(Transparency=duty), together(Transparency=duty, word="new")
    async with people(tmp_path, first) as they:
        with pytest.raises(ApprovalMissingError):
            await they.propose("alice", new, None)
        with pytest.raises(ApprovalMissingError):
            await they.propose("releaser", raise_version(4), None)
        await they.propose("alice", new, they.sign("alice", DecisionKind.PROPOSE, new))
        with pytest.raises(ApprovalMissingError):
            await they.approve("bob", new, None)
        with pytest.raises(ApprovalMissingError):
            await they.cancel("bob", None)
        unsigned = AcknowledgeUpdate(user("bob").der, new, None)  # prepared before it was demanded
        with pytest.raises(ApprovalMissingError):
            await they.engine.submit(unsigned)
        await they.engine.submit(CancelUpdate(identity=None, manifest=new))  # by nobody
        assert they.engine.view.running.pending is None
        assert they.engine.view.running.manifest == first
