"""The level of a journal: an event of a level appears only in a state of this level.

Level 3 has the events of running workloads, level 4 the event ``flush-shared``. A reader of a lower
level stops at the first record of a base, because it does not know a piece of the base.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, Union, get_args

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.living.renewal import living_manifest
from support.samples.activation import marble_manifest
from support.samples.authority import coordinator_keys
from support.samples.deployment import NOW, user

from keyhouse.base.errors import KeyhouseError
from keyhouse.coordinator import SentUpdate, prepare_update
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.line import level_of
from keyhouse.coordinator.core.lineages import GRACE
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import AcceptingManifest, LineItem, Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.records import EVENTS, decode_events
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.journal import Codec
from keyhouse.journal.chain import UndecodableError

LEVELS: Final = {
    events.LineExtended: events.LINE_LEVEL,
    events.BaseLine: events.LINE_LEVEL,
    events.MarblesRenewed: events.LIVING_LEVEL,
    events.WorkloadsRevoked: events.LIVING_LEVEL,
    events.BaseLineages: events.LIVING_LEVEL,
    events.BaseRevocations: events.LIVING_LEVEL,
    events.FlushShared: events.FLUSH_LEVEL,
}
"""The level of each kind of event. All further kinds have level 1."""

OF_LEVEL_1: Final = {
    *(events.ManifestSet, events.Started, events.SecretsUploaded, events.CollateralSeen),
    *(events.PackagesUpdated, events.UpdateInitiated, events.UpdateAcknowledged),
    *(events.UpdateCancelled, events.ManifestUpdated, events.MarblesActivated, events.CounterSet),
    *(events.LogBegun, events.Published, events.WitnessesAgreed, events.BaseBegun),
    *(events.BaseMembers, events.BaseSecrets, events.BaseActivations, events.BaseCounters),
    *(events.BaseAudit, events.BaseLog, events.BaseEnded),
}

MANIFESTS: Final = {
    "plain": marble_manifest(),
    "living": living_manifest(),
    "overlapping": living_manifest(Config={"Trust": {"OverlapHours": 24}}),
}

ACTIONS: Final = (
    *(*MANIFESTS, "package", "activate", "renew"),
    *("revoke type", "revoke platform", "line", "flush", "days"),
)


def test_each_kind_of_event_has_a_level() -> None:
    assert set(get_args(events.Event)) == {*LEVELS, *OF_LEVEL_1}
    assert max(LEVELS.values()) == events.LEVEL


@cache
def beginning(name: str) -> Running:
    """Return the state after the first manifest, with the name of ``MANIFESTS``."""
    accepting = AcceptingManifest(coordinator_keys("P-256"))
    command = prepare_manifest(accepting, MANIFESTS[name], now=NOW)
    event = events.ManifestSet(
        time=NOW,
        platform="test",
        keys=accepting.keys,
        manifest=command.manifest,
        signature=command.signature,
        secrets=command.secrets,
        recovery=command.recovery,
    )
    state = evolve_all(None, [event])
    assert isinstance(state, Running)
    return state


_NAME: Final = b"i" * 16


class Journal:
    """A journal in memory: the present state, and the events of its last epoch."""

    def __init__(self, name: str) -> None:
        self.state = beginning(name)
        self.now = NOW
        self.epoch: list[events.Event] = []
        self._begin()

    def step(self, action: str) -> tuple[events.Event, ...]:
        """Apply ``action``; return its events, or () for a refusal."""
        if action == "days":
            self.now += 3 * GRACE
            return ()
        context = Context("test", bytes(16), "test", bytes(32), now=self.now)
        try:
            made = decide(self.state, self._command(action), context)
        except KeyhouseError:
            return ()
        after = evolve_all(self.state, made)
        assert isinstance(after, Running)
        self.state = after
        if any(isinstance(each, events.ManifestUpdated) for each in made):
            self._begin()
        else:
            self.epoch += made
        return made

    def _begin(self) -> None:
        """Begin an epoch: the base is the state."""
        self.epoch = list(base_events(self.state, UpdateLog().view()))

    def _command(self, action: str) -> commands.Command:
        state, identity = self.state, user("admin").der
        platform = events.Scope.PLATFORM
        made: dict[str, Callable[[], commands.Command]] = {
            "activate": lambda: commands.Activate(*self._place, self._activated(_NAME)),
            "renew": lambda: commands.Renew(*self._place, self._renewed(_NAME)),
            "revoke type": lambda: commands.RevokeWorkloads(identity, events.Scope.TYPE, "web"),
            "revoke platform": lambda: commands.RevokeWorkloads(
                identity, platform, platform=b"p" * 16
            ),
            "line": lambda: commands.BeginLine(state.manifest, (LineItem(b"an entry"),)),
            "flush": commands.ShareFlush,
        }
        if action in made:
            return made[action]()
        package = b'{"Packages": {"app": {"SecurityVersion": 2}}}'
        sent = SentUpdate(identity, MANIFESTS.get(action, package))
        return prepare_update(state, sent, now=self.now)

    @property
    def _place(self) -> tuple[bytes, bytes]:
        return self.state.manifest, self.state.keys.intermediate_cert

    def _activated(self, name: bytes) -> events.Activated:
        """Return an activation, with a lineage as the service makes it."""
        marble = policy_of(self.state.manifest).manifest.marbles["web"]
        end = self.now + GRACE
        return events.Activated(
            time=self.now,
            marble_type="web",
            uuid="u",
            names=(),
            counted=False,
            quoted=True,
            lineage=events.LineageBegun(name, bytes(32), end) if marble.renewal else None,
        )

    def _renewed(self, name: bytes) -> events.Renewed:
        lineage = self.state.lineages.get(name)
        return events.Renewed(
            time=self.now,
            lineage=name,
            presented=b"" if lineage is None else lineage.key,
            key=self.now.to_bytes(32, "big"),
            end=self.now + GRACE,
        )


def highest(kinds: Iterable[events.Event]) -> int:
    """Return the highest level of events."""
    return max((LEVELS.get(type(each), 1) for each in kinds), default=1)


@given(st.sampled_from(sorted(MANIFESTS)), st.lists(st.sampled_from(ACTIONS), max_size=8))
@settings(max_examples=60, deadline=None)
def test_events_of_a_level_appear_only_in_a_state_of_the_level(
    first: str, actions: list[str]
) -> None:
    journal = Journal(first)
    for action in actions:
        before = journal.state
        made = journal.step(action)
        state, level = journal.state, level_of(journal.state)
        assert highest(made) <= level
        # The base alone has the level, so a reader of a lower level stops at the base.
        assert highest(base_events(state, UpdateLog().view())) == level
        assert highest(journal.epoch) <= level
        if highest(made) == events.LIVING_LEVEL:
            assert policy_of(before.manifest).manifest.is_living or before.lineages
        if highest(made) == events.FLUSH_LEVEL:
            assert action == "flush"
            assert not before.shares_flush
        # Under plain manifests without former workloads, the journal keeps the former level.
        is_living = policy_of(state.manifest).manifest.is_living
        leftovers = state.lineages or state.former_roots or state.revoked_platforms
        if not is_living and not leftovers and not state.shares_flush:
            assert level <= events.LINE_LEVEL


@given(st.sampled_from(sorted(MANIFESTS)), st.lists(st.sampled_from(ACTIONS), max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_reader_of_a_lower_level_stops_at_the_base(first: str, actions: list[str]) -> None:
    journal = Journal(first)
    for action in actions:
        journal.step(action)
    base = [EVENTS.encode(each) for each in base_events(journal.state, UpdateLog().view())]
    for level in range(1, events.LEVEL + 1):
        if level >= level_of(journal.state):
            assert len([reader(level).decode(each) for each in base]) == len(base)
        else:
            with pytest.raises(UndecodableError):
                [reader(level).decode(each) for each in base]


@cache
def reader(level: int) -> Codec[Any]:
    """Return the reader of a version that knows the events up to ``level``."""
    known = [each for each in get_args(events.Event) if LEVELS.get(each, 1) <= level]
    return Codec(Union[tuple(known)], name="event")  # noqa: UP007 the members are a list


def test_a_plain_manifest_returns_to_the_former_level_after_its_workloads() -> None:
    journal = Journal("living")
    journal.step("activate")
    journal.step("plain")
    assert level_of(journal.state) == events.LIVING_LEVEL  # a lineage can still be revoked
    journal.step("days")
    assert journal.step("plain")
    assert level_of(journal.state) == 1
    assert highest(journal.epoch) == 1


def test_a_revoked_platform_keeps_the_level() -> None:
    platforms = Journal("living")
    platforms.step("revoke platform")
    platforms.step("days")
    assert platforms.step("plain")
    assert level_of(platforms.state) == events.LIVING_LEVEL
    assert highest(platforms.epoch) == events.LIVING_LEVEL


def test_the_shared_flush_begins_once_and_stays() -> None:
    journal = Journal("plain")
    assert journal.step("flush") == (events.FlushShared(),)
    assert journal.step("flush") == ()
    assert journal.step("plain")
    assert level_of(journal.state) == events.FLUSH_LEVEL
    assert events.FlushShared() in journal.epoch
    assert (
        decide(
            AcceptingManifest(coordinator_keys("P-256")),
            commands.ShareFlush(),
            Context("test", bytes(16), "test", bytes(32), now=NOW),
        )
        == ()
    )


class Future(msgspec.Struct, tag="roots-signed-twice"):
    """An event of a later version."""

    secret: str


def test_this_version_names_an_event_of_a_newer_version() -> None:
    payload = msgspec.msgpack.encode(Future("a secret"))
    with pytest.raises(UndecodableError, match='"roots-signed-twice"') as refused:
        list(decode_events([payload]))
    assert "a secret" not in str(refused.value)
    assert "newer version" in str(refused.value)


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", msgspec.msgpack.encode({"type": 1}), msgspec.msgpack.encode("text")]
)
def test_other_bytes_are_not_an_event(payload: bytes) -> None:
    with pytest.raises(UndecodableError, match="are not"):
        list(decode_events([payload]))


def test_a_known_event_with_other_fields_is_not_called_newer() -> None:
    payload = msgspec.msgpack.encode({"type": "counter-set", "time": "text"})
    with pytest.raises(UndecodableError, match="are not"):
        list(decode_events([payload]))
