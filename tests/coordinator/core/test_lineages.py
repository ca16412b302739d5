"""Lineages: only one key continues, no honest workload is locked out, old journals stay old."""

import pytest
from hypothesis import given, strategies as st
from immutables import Map
from msgspec.structs import replace
from support.living.renewal import LIVING
from support.samples.authority import coordinator_keys
from support.samples.deployment import NOW, manifest

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.events import LIVING_LEVEL
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.line import level_of
from keyhouse.coordinator.core.lineages import (
    GRACE,
    MOST,
    ActivateAgainError,
    LineageSupersededError,
    RenewFirstError,
    RevokedError,
    cleaned,
    require_continuable,
    require_newest,
    require_renewable,
    require_room,
    with_activated,
    with_renewed,
    with_restored,
)
from keyhouse.coordinator.core.state import (
    AcceptingManifest,
    FormerRoot,
    Lineage,
    PlatformRevocation,
    Running,
    Standing,
)
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.prepare import prepare_manifest

NAME = bytes(16)


def running(raw: bytes | None = None) -> Running:
    """Return the state after the first manifest ``raw``."""
    accepting = AcceptingManifest(coordinator_keys("P-256"))
    command = prepare_manifest(accepting, raw or manifest(), now=NOW)
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


def key(number: int) -> bytes:
    """Return the hash of the key with this number."""
    return number.to_bytes(32, "big")


def activated() -> Map[bytes, Lineage]:
    """Return the lineage of an activation with the key 1."""
    begun = events.LineageBegun(NAME, key(1), end=100)
    event = events.Activated(
        time=1,
        marble_type="web",
        uuid="u",
        names=(),
        counted=False,
        quoted=False,
        lineage=begun,
    )
    return with_activated(Map(), event, begun)


def renewed(lineages: Map[bytes, Lineage], presented: bytes, new: bytes) -> Map[bytes, Lineage]:
    """Return the lineages after a renewal. Raises a refusal."""
    require_continuable(lineages[NAME], presented, new)
    event = events.Renewed(time=2, lineage=NAME, presented=presented, key=new, end=200)
    return with_renewed(lineages, event)


@given(st.lists(st.booleans(), max_size=30))
def test_lost_answers_lock_no_honest_workload_out(lost: list[bool]) -> None:
    lineages, own, following = activated(), key(1), 2
    for is_lost in lost:
        lineages = renewed(lineages, own, key(following))
        if not is_lost:
            own, following = key(following), following + 1
            require_newest(lineages[NAME], own)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_of_two_holders_at_most_one_reads(steps: list[tuple[bool, bool]]) -> None:
    """An honest workload and a thief begin with the same key, and lose some answers."""
    lineages = renewed(activated(), key(1), key(2))
    held, flight, number = [key(2), key(2)], [key(1000), key(2000)], 3000
    diverged = False
    for is_thief, is_lost in steps:
        who = int(is_thief)
        try:
            lineages = renewed(lineages, held[who], flight[who])
        except KeyhouseError:
            continue
        diverged = True
        if not is_lost:
            held[who], number = flight[who], number + 1
            flight[who] = key(number)
        readers = 0
        for each in held:
            try:
                require_newest(lineages[NAME], each)
            except KeyhouseError:
                continue
            readers += 1
        assert readers <= 1 or not diverged


def test_lineages_end_after_their_grace() -> None:
    lineages = activated()
    assert cleaned(lineages, 100 + GRACE) == lineages
    assert not cleaned(lineages, 101 + GRACE)


@given(st.lists(st.integers(0, 3), max_size=6))
def test_a_restored_lineage_continues_once_with_any_key(presented: list[int]) -> None:
    """H6: the first renewal decides. Only its key reads secrets, and only after the renewal."""
    lineages = renewed(activated(), key(1), key(2))
    later = NOW + GRACE * 3  # the backup is older than the grace of its lineages
    lineages = with_restored(lineages, later)
    assert cleaned(lineages, later + GRACE) == lineages
    newest = None
    for number, holder in enumerate(presented):
        lineage = lineages[NAME]
        if newest is None:
            with pytest.raises(RenewFirstError):
                require_newest(lineage, key(holder))
        new = key(100 + number)
        try:
            require_continuable(lineage, key(holder), new)
        except LineageSupersededError:
            assert newest is not None
            continue
        assert newest is None  # no holder has the key of the first renewal
        lineages = renewed(lineages, key(holder), new)
        newest = new
        require_renewable(lineages[NAME], key(holder), new)  # the answer may be lost
        require_newest(lineages[NAME], new)


def test_a_revoked_lineage_stays_revoked_after_a_restoration() -> None:
    revoked = activated().set(NAME, replace(activated()[NAME], standing=Standing.REVOKED.value))
    assert with_restored(revoked, NOW) == revoked


def test_a_base_holds_everything() -> None:
    begun = running(LIVING)
    lineage = Lineage("web", "u", b"p", key(1), 5, key(2), Standing.REVOKED)
    state = evolve_all(
        begun,
        [
            events.BaseLineages((events.NamedLineage(NAME, lineage),)),
            events.BaseRevocations(
                (PlatformRevocation(b"p", 1, "admin"),), (FormerRoot(b"root", 9),)
            ),
        ],
    )
    assert isinstance(state, Running)
    assert evolve_all(None, base_events(state, UpdateLog().view())) == state


def test_a_manifest_without_the_new_keys_keeps_the_former_level() -> None:
    plain = running()
    assert level_of(plain) < LIVING_LEVEL
    kinds = {type(each) for each in base_events(plain, UpdateLog().view())}
    assert not kinds & {events.BaseLineages, events.BaseRevocations}
    assert level_of(running(LIVING)) == LIVING_LEVEL


def test_ended_lineages_leave_room_for_others() -> None:
    lineage = Lineage("web", "u", b"", key(1), end=NOW)
    full = Map({number.to_bytes(16, "big"): lineage for number in range(MOST)})
    state = replace(running(LIVING), lineages=full)
    require_room(state, NOW + GRACE + 1)
    with pytest.raises(UnavailableError, match=str(MOST)):
        require_room(state, NOW + GRACE)
    begun = events.LineageBegun(b"another lineage.", key(2), end=NOW + 2 * GRACE)
    event = events.Activated(
        time=NOW + GRACE + 1,
        marble_type="web",
        uuid="u",
        names=(),
        counted=False,
        quoted=False,
        lineage=begun,
    )
    assert list(with_activated(full, event, begun)) == [begun.id]


def decided(state: Running, command: commands.Command) -> tuple[events.Event, ...]:
    """Return the events of ``command``, or raise its refusal."""
    return decide(state, command, Context("test", bytes(16), "test", bytes(32), now=NOW))


def test_the_decision_refuses_a_command_that_the_state_has_overtaken() -> None:
    """The preparation of a command takes time: meanwhile the state can change."""
    state = running(LIVING)
    begun = replace(activated()[NAME], end=NOW)
    state = replace(state, lineages=Map({NAME: begun}))
    place = (state.manifest, state.keys.intermediate_cert)
    event = events.Renewed(NOW, NAME, presented=key(1), key=key(2), end=NOW, platform=b"p")
    again = events.Activated(
        time=NOW, marble_type="web", uuid="u", names=(), counted=False, quoted=True, platform=b"p"
    )
    renew, activate = commands.Renew(*place, event), commands.Activate(*place, again)
    assert decided(state, renew)
    assert decided(state, activate)
    revoked = replace(state, revoked_platforms=(PlatformRevocation(b"p", NOW, "admin"),))
    for command in (renew, activate):
        with pytest.raises(RevokedError):
            decided(revoked, command)
    for stale in ((b"other", place[1]), (place[0], b"other")):
        for command in (commands.Renew(*stale, event), commands.Activate(*stale, again)):
            with pytest.raises(commands.StaleError):
                decided(state, command)
    overtaken = replace(begun, key=key(3), before=key(1))
    with pytest.raises(LineageSupersededError):
        decided(replace(state, lineages=Map({NAME: overtaken})), renew)
    with pytest.raises(ActivateAgainError):
        decided(replace(state, lineages=Map()), renew)
