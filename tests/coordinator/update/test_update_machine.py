"""Proposals, acknowledgements, cancels, uploads, restarts and kills in any order.

No manifest is in force without enough agreements. The model has only names, numbers and bytes; the
engine runs over a real state directory. No rule has a precondition: the outcome of an interrupted
change depends on time, and Hypothesis needs the same choices for the same draws.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.samples.deployment import (
    crashing_engine,
    running_engine,
    set_manifest,
    stored,
    upload,
    user,
)
from support.samples.updates import raise_version, together

from keyhouse.base.errors import RefusedError
from keyhouse.coordinator import (
    AcceptingManifest,
    AcknowledgeUpdate,
    CancelUpdate,
    Engine,
    InitiateUpdate,
    SentUpdate,
    StaleError,
    UpdatePackages,
    prepare_acknowledgement,
    prepare_update,
)

UPDATERS = ("alice", "bob", "carol", "dave")
PEOPLE = st.sampled_from([*UPDATERS, *UPDATERS, "writer", "releaser", "stranger"])

# In memory if possible: no power fails in this test, and thousands of syncs would be slow.
_FOLDERS = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108  removed

Way = Callable[[Path], AbstractAsyncContextManager[Engine]]
"""Runs an engine over a directory; the way decides its end."""


class Proposal(NamedTuple):
    """A manifest with its properties in the model."""

    raw: bytes
    updaters: tuple[str, ...]
    threshold: int
    version: int = 3  # SecurityVersion in force with this manifest
    kept: bool = True  # on the disk; otherwise a restart loses all state

    @property
    def needed(self) -> int:
        return self.threshold or len(self.updaters)


class Waiting(NamedTuple):
    """A pending proposal. ``users`` and ``needed`` come from the manifest at that time."""

    proposal: Proposal
    users: tuple[str, ...]
    needed: int
    agreed: frozenset[str]


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    """Draw a manifest with two to four updaters, of whom half or all must agree."""
    updaters = draw(st.sets(st.sampled_from(UPDATERS), min_size=2).map(sorted))
    threshold = draw(st.sampled_from([0, len(updaters), (len(updaters) + 1) // 2]))
    word = draw(st.sampled_from(["", "a", "b"]))
    kept = draw(st.sampled_from([True, True, False]))
    mode = "ProductKey" if kept else "Disabled"
    raw = together(updaters=updaters, word=word, UpdateThreshold=threshold, SealMode=mode)
    return Proposal(raw, tuple(updaters), threshold, kept=kept)


_FIRST = Proposal(together(), ("alice", "bob", "carol"), 2)

Prepared = InitiateUpdate | UpdatePackages | AcknowledgeUpdate


class Updates(RuleBasedStateMachine):
    """A deployment and its model."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.home = Path(tempfile.mkdtemp(dir=_FOLDERS)) / "data"
        self.late: list[tuple[str, Proposal, Prepared]] = []
        self._open(crashing_engine(self.home))
        self._deploy()

    def _deploy(self) -> None:
        """Begin a deployment on an empty state."""
        assert isinstance(self.engine.view.state, AcceptingManifest)
        self.current, self.waiting, self.note = _FIRST, None, b""
        self.log = ["Initial manifest set"]
        self.place = (0, 0)
        self.runner.run(set_manifest(self.engine, _FIRST.raw))

    waiting: Waiting | None

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self._close()
            self.runner.close()
            shutil.rmtree(self.home.parent)

    def _open(self, way: AbstractAsyncContextManager[Engine]) -> None:
        self.way = way
        self.engine = self.runner.run(way.__aenter__())

    def _close(self) -> None:
        self.runner.run(self.way.__aexit__(None, None, None))

    # --- expectations of the model ---

    def _initiated(self, by: str, proposal: Proposal) -> None:
        """Record the proposal of ``by``; fail for a forbidden proposal."""
        assert by in self.current.updaters
        assert self.waiting is None
        users, needed = self.current.updaters, self.current.needed
        self.waiting = Waiting(proposal, users, needed, frozenset())
        self.log.append(f"Manifest update initiated by {by}")
        self._agreed(by)

    def _acknowledged(self, by: str, raw: bytes) -> None:
        assert self.waiting is not None
        assert by in self.waiting.users
        assert raw == self.waiting.proposal.raw
        self.log.append(f"Manifest update acknowledged by {by}")
        self._agreed(by)

    def _agreed(self, by: str) -> None:
        assert self.waiting is not None
        self.waiting = self.waiting._replace(agreed=self.waiting.agreed | {by})
        if len(self.waiting.agreed) >= self.waiting.needed:
            self.current, self.waiting = self.waiting.proposal, None
            self.log.append("Manifest updated")

    # --- actions of users ---

    @rule(by=PEOPLE, proposal=proposals())
    def initiate(self, by: str, proposal: Proposal) -> None:
        allowed = by in self.current.updaters and self.waiting is None
        try:
            self.runner.run(self._submit(self._prepare(by, proposal.raw)))
        except RefusedError:
            assert not allowed
            return
        self._initiated(by, proposal)

    @rule(by=PEOPLE)
    def acknowledge(self, by: str) -> None:
        if self.waiting is None:
            return
        raw, allowed = self.waiting.proposal.raw, by in self.waiting.users
        try:
            self.runner.run(self._submit(self._agree(by, raw)))
        except RefusedError:
            assert not allowed
            return
        self._acknowledged(by, raw)

    @rule(order=st.permutations(UPDATERS), many=st.integers(1, 4), proposal=proposals())
    def agree_in_turn(self, order: list[str], many: int, proposal: Proposal) -> None:
        """Agree often enough for an update, which single steps rarely reach."""
        self.initiate(order[0], proposal)
        for by in order[1 : 1 + many]:
            if self.waiting is not None:
                self.acknowledge(by)

    @rule(by=st.sampled_from(UPDATERS), proposal=proposals())
    def acknowledge_what_may_not_be_pending(self, by: str, proposal: Proposal) -> None:
        try:
            self.runner.run(self._submit(self._agree(by, proposal.raw)))
        except RefusedError:
            return
        self._acknowledged(by, proposal.raw)

    @rule(by=PEOPLE)
    def cancel(self, by: str) -> None:
        allowed = by in self.current.updaters and self.waiting is not None
        command = CancelUpdate(identity=user(by).der, manifest=None)
        try:
            self.runner.run(self.engine.submit(command))
        except RefusedError:
            assert not allowed
            return
        assert allowed
        self.waiting = None
        self.log.append(f"Manifest update cancelled by {by}")

    @rule(by=PEOPLE, version=st.integers(0, 9))
    def raise_the_version(self, by: str, version: int) -> None:
        allowed = by == "releaser" and self.waiting is None and version >= self.current.version
        try:
            self.runner.run(self._submit(self._prepare(by, raise_version(version))))
        except RefusedError:
            assert not allowed
            return
        assert allowed
        self.current = self.current._replace(version=version)
        self.log.append(f"SecurityVersion increased by {by}")

    @rule(by=PEOPLE, value=st.binary(min_size=1, max_size=5))
    def upload(self, by: str, value: bytes) -> None:
        try:
            self.runner.run(upload(self.engine, {"note": value}, by))
        except RefusedError:
            assert by != "writer"
            return
        assert by == "writer"
        self.note = value
        self.log.append(f"Secret set by {by}")

    # --- late and interrupted commands ---

    @rule(by=st.sampled_from(UPDATERS), proposal=proposals())
    def prepare_an_update_for_later(self, by: str, proposal: Proposal) -> None:
        try:
            self.late.append((by, proposal, self._prepare(by, proposal.raw)))
        except RefusedError:
            return

    @rule(by=st.sampled_from(UPDATERS))
    def prepare_an_acknowledgement_for_later(self, by: str) -> None:
        if self.waiting is None:
            return
        proposal = self.waiting.proposal
        try:
            self.late.append((by, proposal, self._agree(by, proposal.raw)))
        except RefusedError:
            return

    @rule(number=st.integers(0, 99))
    def submit_what_was_prepared_before(self, number: int) -> None:
        if not self.late:
            return
        by, proposal, command = self.late.pop(number % len(self.late))
        try:
            self.runner.run(self._submit(command))
        except (RefusedError, StaleError):
            return
        if isinstance(command, AcknowledgeUpdate):
            self._acknowledged(by, proposal.raw)
        else:
            self._initiated(by, proposal)

    @rule(way=st.sampled_from([running_engine, crashing_engine]))
    def restart(self, way: Way) -> None:
        """Restart, and choose the next end: in order, or by a kill."""
        self._close()
        self._open(way(self.home))
        if not self.current.kept:
            self._deploy()

    @rule(by=st.sampled_from(UPDATERS), turns=st.integers(0, 12))
    def kill_amid_an_acknowledgement(self, by: str, turns: int) -> None:
        """Kill the process: the acknowledgement has happened completely, or not at all."""
        waiting, kept = self.waiting, self.current.kept
        if waiting is None or by not in waiting.users or not kept:
            return
        raw = waiting.proposal.raw
        self.restart(crashing_engine)
        command = self._agree(by, raw)
        self.runner.run(self._cut_off(command, turns))
        self._open(running_engine(self.home))
        if isinstance(self.engine.view.state, AcceptingManifest):
            self._acknowledged(by, raw)  # applied, and lost with the process, as SealMode demands
            assert not self.current.kept
            self._deploy()
        elif len(self.engine.view.log) > len(self.log):
            self._acknowledged(by, raw)

    async def _cut_off(self, command: Prepared, turns: int) -> None:
        submitted = asyncio.create_task(self.engine.submit(command))
        for _ in range(turns):
            await asyncio.sleep(0)
        await self.way.__aexit__(None, None, None)
        submitted.cancel()
        await asyncio.wait([submitted])

    def _prepare(self, by: str, raw: bytes) -> Prepared:
        engine = self.engine
        return prepare_update(
            engine.view.running, SentUpdate(user(by).der, raw), now=engine.current.now()
        )

    def _agree(self, by: str, raw: bytes) -> Prepared:
        engine = self.engine
        return prepare_acknowledgement(
            engine.view.running, SentUpdate(user(by).der, raw), now=engine.current.now()
        )

    async def _submit(self, command: Prepared) -> None:
        await self.engine.submit(command)

    # --- invariants ---

    @invariant()
    def what_is_in_force_is_what_enough_have_agreed_to(self) -> None:
        state = self.engine.view.running
        assert state.manifest == self.current.raw
        assert state.security_versions.get("app", 3) == self.current.version

    @invariant()
    def nothing_of_a_store_is_on_the_disk_where_it_is_kept_in_memory(self) -> None:
        names = {each.name for each in self.home.iterdir()} - {"lock"}
        assert ("sealed_key" in names) is self.current.kept
        assert self.current.kept or names == {"tombstone"}

    @invariant()
    def the_place_in_the_journal_only_grows(self) -> None:
        position = self.engine.view.position
        assert position is not None
        place = (position.sequence, position.epoch)
        assert place >= self.place
        assert place[1] >= self.place[1]
        self.place = place

    @invariant()
    def what_waits_is_what_the_model_says(self) -> None:
        pending = self.engine.view.running.pending
        if self.waiting is None:
            assert pending is None
            return
        assert pending is not None
        assert pending.manifest == self.waiting.proposal.raw
        assert pending.users == self.waiting.users
        assert frozenset(pending.acknowledged) == self.waiting.agreed
        assert pending.missing == self.waiting.needed - len(self.waiting.agreed) > 0

    @invariant()
    def uploads_survive_every_update(self) -> None:
        assert stored(self.engine.view).get("note", b"") == self.note

    @invariant()
    def the_log_tells_all_of_it(self) -> None:
        entries = [json.loads(line) for line in self.engine.view.log.lines()]
        shown = [
            f"{entry['update'].partition(';')[0]} by {entry['user']}"
            if "user" in entry
            else entry["update"].partition(";")[0]
            for entry in entries
        ]
        assert shown == self.log


TestUpdates = pytest.mark.timeout(120)(Updates.TestCase)
TestUpdates.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
