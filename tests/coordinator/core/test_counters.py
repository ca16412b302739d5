"""Monotonic counters, activation limits and the audit trail: no answered value decreases."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import asdict
from support.samples.activation import marble_manifest
from support.samples.deployment import NOW, moment, new_process

from keyhouse.authority import make_coordinator_keys
from keyhouse.base.errors import (
    ConflictError,
    ForbiddenError,
    UnauthenticatedError,
    UnavailableError,
)
from keyhouse.coordinator import (
    AcceptingManifest,
    Activate,
    Activated,
    Running,
    SetCounter,
    StaleError,
    UpdateLogView,
    counter_of,
    prepare_manifest,
)
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.commands import RecordActivations
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.events import (
    BaseActivations,
    BaseAudit,
    BaseCounters,
    BaseEnded,
    Counter,
    CounterSet,
    Event,
    MarblesActivated,
)
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.update_log import (
    AUDIT_BYTES,
    AUDIT_KEPT,
    AUDIT_SLACK,
    AuditTrail,
    UpdateLog,
)
from keyhouse.coordinator.engine.records import decode_events, encode_events, rebuild
from keyhouse.coordinator.engine.work_queue import DELAY, MANY, MOST, TOGETHER, AuditBuffer

LIMIT: Final = 3
CONTEXT: Final = Context(now=NOW, **asdict(new_process("simulation")))
WEB: Final = ("web", "11111111-2222-3333-4444-555555555555")


@cache
def first(**config: Any) -> tuple[Running, tuple[Event, ...]]:
    """Return a new deployment and its events."""
    keys = make_coordinator_keys(
        dns_names=[], ip_addresses=[], curve="P-256", now=moment(NOW), simulated=True
    )
    marbles = {
        "web": {"Package": "app", "MaxActivations": LIMIT},
        "once": {"Package": "app", "MaxActivations": 1},
        "free": {"Package": "app"},
    }
    features = config or {"FeatureGates": ["MonotonicCounter"]}
    accepting = AcceptingManifest(keys)
    command = prepare_manifest(accepting, marble_manifest(marbles, Config=features), now=NOW)
    events = decide(accepting, command, CONTEXT)
    state = evolve_all(None, events)
    assert isinstance(state, Running)
    return state, events


def counting(state: Running, name: str, value: int, marble: tuple[str, str] = WEB) -> SetCounter:
    return SetCounter(state.keys.marble_root_cert, marble, name, value)


def activated(
    marble_type: str = "free", uuid: str = WEB[1], *, platform: bytes = b"", names: int = 1
) -> Activated:
    return Activated(
        time=NOW,
        marble_type=marble_type,
        uuid=uuid,
        names=("n" * 250,) * names,
        counted=marble_type == "web",
        quoted=bool(platform),
        platform=platform,
    )


def after(state: Running, events: Sequence[Event]) -> Running:
    evolved = evolve_all(state, events)
    assert isinstance(evolved, Running)
    return evolved


def restarted(state: Running, log: UpdateLogView) -> tuple[Running, UpdateLog]:
    """Read a new epoch with the base ``state`` again; return state and log."""
    return rebuild(list(encode_events(base_events(state, log))))


def test_a_counter_rises_and_never_falls() -> None:
    state, _ = first()
    for value, answered in ((5, 0), (3, 5), (5, 5), (2**64 - 1, 5), (0, 2**64 - 1)):
        assert counter_of(state, WEB, "") == answered
        state = after(state, decide(state, counting(state, "", value), CONTEXT))
    assert counter_of(state, WEB, "") == 2**64 - 1


def test_zero_is_never_stored() -> None:
    state, _ = first()
    assert decide(state, counting(state, "a", 0), CONTEXT) == ()


@pytest.mark.parametrize("other", [("webx", WEB[1]), ("web", WEB[1][:-1] + "6"), ("free", WEB[1])])
def test_counters_of_other_workloads_are_others(other: tuple[str, str]) -> None:
    state, _ = first()
    state = after(state, decide(state, counting(state, "x", 7), CONTEXT))
    assert counter_of(state, other, "x") == 0
    assert counter_of(state, WEB, "xx") == 0


def test_a_workload_has_so_many_counters_and_no_more() -> None:
    state, _ = first()
    for number in range(1000):
        state = after(state, decide(state, counting(state, str(number), 1), CONTEXT))
    with pytest.raises(ConflictError, match=r"\b1000\b"):
        decide(state, counting(state, "one more", 1), CONTEXT)
    assert decide(state, counting(state, "one more", 0), CONTEXT) == ()
    assert decide(state, counting(state, "7", 2), CONTEXT) != ()
    other = ("web", "00000000-0000-0000-0000-000000000001")
    assert decide(state, counting(state, "x", 1, other), CONTEXT) != ()


def test_counting_needs_the_gate_and_the_present_marble_root() -> None:
    closed, _ = first(UpdateThreshold=0)
    with pytest.raises(ForbiddenError, match="MonotonicCounter"):
        decide(closed, counting(closed, "x", 1), CONTEXT)
    state, _ = first()
    with pytest.raises(UnauthenticatedError):
        decide(state, SetCounter(b"another root", WEB, "x", 1), CONTEXT)


def test_activation_that_was_prepared_before_an_update_is_stale() -> None:
    state, _ = first()
    now = (state.manifest, state.keys.intermediate_cert)
    for manifest, intermediate in ((b"another", now[1]), (now[0], b"another")):
        with pytest.raises(StaleError):
            decide(state, Activate(manifest, intermediate, activated("web")), CONTEXT)


def test_exactly_so_many_activations_as_the_manifest_allows() -> None:
    state, _ = first()
    command = Activate(state.manifest, state.keys.intermediate_cert, activated("web"))
    for _ in range(LIMIT):
        state = after(state, decide(state, command, CONTEXT))
    assert state.activations["web"] == LIMIT
    with pytest.raises(ForbiddenError, match="MaxActivations"):
        decide(state, command, CONTEXT)
    once = Activate(state.manifest, state.keys.intermediate_cert, activated("once"))
    assert decide(state, once, CONTEXT)
    free = Activate(state.manifest, state.keys.intermediate_cert, activated("free"))
    assert decide(state, free, CONTEXT) == (MarblesActivated((activated("free"),)),)


class Counting(RuleBasedStateMachine):
    """Counts, activations, epochs and replays in any order: nothing answered is undone."""

    def __init__(self) -> None:
        super().__init__()
        self.state, begun = first()
        self.log = UpdateLog(begun)
        self.payloads = list(encode_events(base_events(self.state, self.log.view())))
        self.counters: dict[tuple[tuple[str, str], str], int] = {}
        self.limited = self.audited = 0

    @rule(
        marble=st.sampled_from([WEB, ("free", WEB[1])]),
        name=st.sampled_from(["", "a", "b"]),
        value=st.integers(0, 2**64 - 1),
    )
    def count(self, marble: tuple[str, str], name: str, value: int) -> None:
        before = counter_of(self.state, marble, name)
        assert before == self.counters.get((marble, name), 0)
        self._happen(decide(self.state, counting(self.state, name, value, marble), CONTEXT))
        self.counters[marble, name] = max(before, value)

    @rule()
    def activate(self) -> None:
        keys = self.state.keys
        command = Activate(self.state.manifest, keys.intermediate_cert, activated("web"))
        if self.limited < LIMIT:
            self._happen(decide(self.state, command, CONTEXT))
            self.limited += 1
            self.audited += 1
        else:
            with pytest.raises(ForbiddenError, match="MaxActivations"):
                decide(self.state, command, CONTEXT)

    @rule(number=st.integers(1, 3))
    def record(self, number: int) -> None:
        self._happen(decide(self.state, RecordActivations((activated(),) * number), CONTEXT))
        self.audited += number

    @rule()
    def begin_an_epoch(self) -> None:
        self.payloads = list(encode_events(base_events(self.state, self.log.view())))

    @precondition(lambda self: self.payloads)
    @rule()
    def restart(self) -> None:
        self.state, self.log = rebuild(self.payloads)

    @invariant()
    def everything_answered_holds(self) -> None:
        for (marble, name), value in self.counters.items():
            assert counter_of(self.state, marble, name) == value
        assert self.state.activations.get("web", 0) == self.limited <= LIMIT
        assert self.log.view().audit.end == self.audited

    def _happen(self, events: tuple[Event, ...]) -> None:
        self.state = after(self.state, events)
        self.log.extend(events)
        self.payloads += encode_events(events)


TestCounting = Counting.TestCase
TestCounting.settings = settings(max_examples=20, stateful_step_count=20)


@given(st.text(max_size=20), st.text(max_size=20), st.integers(1, 2**64 - 1))
def test_every_event_comes_back_from_its_bytes(marble_type: str, name: str, value: int) -> None:
    events: tuple[Event, ...] = (
        CounterSet(time=NOW, marble_type=marble_type, uuid="u", name=name, value=value),
        MarblesActivated(activations=(activated(marble_type, platform=b"p" * 16),)),
    )
    assert tuple(decode_events(encode_events(events))) == events


# Payloads written by this version, in hex. Every later version must read them.
GOLDEN: Final[tuple[tuple[Event, str], ...]] = (
    (
        MarblesActivated(
            activations=(
                Activated(
                    time=1,
                    marble_type="web",
                    uuid="u",
                    names=("a", "::1"),
                    counted=True,
                    quoted=True,
                    platform=b"p",
                    mrenclave=b"e",
                    mrsigner=b"s",
                    tcb_status="UpToDate",
                ),
            )
        ),
        (
            "82a474797065b16d6172626c65732d616374697661746564ab61637469766174696f6e73918aa474"
            "696d6501ab6d6172626c655f74797065a3776562a475756964a175a56e616d657392a161a33a3a31"
            "a7636f756e746564c3a671756f746564c3a8706c6174666f726dc40170a96d72656e636c617665c4"
            "0165a86d727369676e6572c40173aa7463625f737461747573a85570546f44617465"
        ),
    ),
    (
        CounterSet(time=2, marble_type="web", uuid="u", name="n", value=18446744073709551615),
        (
            "86a474797065ab636f756e7465722d736574a474696d6502ab6d6172626c655f74797065a3776562"
            "a475756964a175a46e616d65a16ea576616c7565cfffffffffffffffff"
        ),
    ),
    (
        BaseActivations(counts={"web": 3}),
        "82a474797065b0626173652d61637469766174696f6e73a6636f756e747381a377656203",
    ),
    (
        BaseCounters(counters=(Counter(marble_type="web", uuid="u", name="n", value=5),)),
        (
            "82a474797065ad626173652d636f756e74657273a8636f756e746572739184ab6d6172626c655f74"
            "797065a3776562a475756964a175a46e616d65a16ea576616c756505"
        ),
    ),
    (
        BaseAudit(first=7, lines=(b"{}",)),
        "83a474797065aa626173652d6175646974a5666972737407a56c696e657391c4027b7d",
    ),
    (
        BaseEnded(secrets=1, previous=2, log_lines=3, activations=4, counters=5, audit_lines=6),
        (
            "87a474797065aa626173652d656e646564a77365637265747301a870726576696f757302a96c6f67"
            "5f6c696e657303ab61637469766174696f6e7304a8636f756e7465727305ab61756469745f6c696e"
            "657306"
        ),
    ),
)


@pytest.mark.parametrize(("event", "payload"), GOLDEN, ids=[type(e).__name__ for e, _ in GOLDEN])
def test_payloads_are_those_that_were_written_before(event: Event, payload: str) -> None:
    assert [encoded.hex() for encoded in encode_events([event])] == [payload]
    assert list(decode_events([bytes.fromhex(payload)])) == [event]


def test_a_base_that_ended_before_there_were_activations_is_read() -> None:
    old = {"type": "base-ended", "secrets": 1, "previous": 2, "log_lines": 3}
    (ended,) = decode_events([msgspec.msgpack.encode(old)])
    assert ended == BaseEnded(secrets=1, previous=2, log_lines=3)


def test_an_activation_that_was_written_before_confidential_vms_is_read() -> None:
    old = {"time": 1, "marble_type": "web", "uuid": "u", "names": ["a"], "counted": False}
    old |= {"quoted": False, "platform": b"", "mrenclave": b"", "mrsigner": b"", "tcb_status": ""}
    payload = msgspec.msgpack.encode({"type": "marbles-activated", "activations": [old]})
    (event,) = decode_events([payload])
    activated = Activated(1, "web", "u", ("a",), counted=False, quoted=False)
    assert event == MarblesActivated(activations=(activated,))


# --- the audit trail ---


def recorded(*activations: Activated) -> MarblesActivated:
    return MarblesActivated(activations=activations)


def test_a_workload_on_another_platform_is_marked_also_after_a_restart() -> None:
    state, _ = first()
    log = UpdateLog()
    here, there = b"h" * 16, b"t" * 16
    assert log.extend([recorded(activated(platform=here), activated("web", platform=there))]) == ()
    assert log.extend([recorded(activated(platform=here), activated())]) == ()
    _, log = restarted(state, log.view())
    (moved,) = log.extend([recorded(activated(platform=there))])
    assert (moved.marble_type, moved.uuid) == ("free", WEB[1])
    assert (moved.before, moved.now) == (here.hex(), there.hex())
    audit = log.view().audit
    lines = [json.loads(line) for line in audit.lines(0, 10)]
    assert [line.get("movedFrom") for line in lines] == [None] * 4 + [here.hex()]
    copied = UpdateLog([recorded(activated(platform=here))], before=log.view())
    assert json.loads(copied.view().audit.lines(5, 1)[0])["movedFrom"] == there.hex()


def test_a_confidential_vm_is_told_by_its_own_measurements_also_after_a_restart() -> None:
    registers = tuple(bytes([number]) * 48 for number in range(4))
    vm = msgspec.structs.replace(activated(platform=b"h" * 16), mrtd=b"m" * 48, rtmrs=registers)
    (event,) = decode_events(encode_events([recorded(vm)]))
    log = UpdateLog()
    log.extend([event])
    _, log = restarted(first()[0], log.view())
    told = json.loads(log.view().audit.lines(0, 1)[0])
    assert (told["mrtd"], told["rtmrs"]) == ((b"m" * 48).hex(), [each.hex() for each in registers])
    assert not {"uniqueID", "signerID", "measurement"} & told.keys()


def test_a_confidential_vm_of_amd_is_told_by_its_measurement() -> None:
    vm = msgspec.structs.replace(activated(platform=b"c" * 64), measurement=b"m" * 48)
    (event,) = decode_events(encode_events([recorded(vm)]))
    log = UpdateLog()
    log.extend([event])
    told = json.loads(log.view().audit.lines(0, 1)[0])
    assert told["measurement"] == (b"m" * 48).hex()
    assert not {"mrtd", "rtmrs"} & told.keys()


def test_a_view_shows_what_was_there_and_nothing_later() -> None:
    trail = AuditTrail()
    trail.extend(recorded(activated(), activated()))
    view = trail.view()
    trail.extend(recorded(activated()))
    assert (len(view), view.first, view.end) == (2, 0, 2)
    assert len(view.lines(1, 10)) == 1
    assert view.lines(2, 10) == view.lines(99, 1) == []


def test_the_newest_are_kept_under_their_numbers() -> None:
    trail = AuditTrail()
    many = recorded(*(activated(),) * 1000)
    for _ in range((AUDIT_KEPT + AUDIT_SLACK) // 1000):
        trail.extend(many)
    view = trail.view()
    assert (len(view), view.first, view.end) == (AUDIT_KEPT, AUDIT_SLACK, AUDIT_KEPT + AUDIT_SLACK)
    trail.extend(recorded(activated(uuid="newest")))
    assert b"newest" in trail.view().lines(AUDIT_KEPT + AUDIT_SLACK, 1)[0]
    state, _ = first()
    log = UpdateLog(before=UpdateLogView([], 0, trail.view()))
    _, again = restarted(state, log.view())
    assert again.view().audit.first == trail.view().first
    assert again.view().audit.end == trail.view().end
    assert again.view().audit.lines(AUDIT_KEPT, 3) == trail.view().lines(AUDIT_KEPT, 3)


def test_long_lines_push_out_older_ones() -> None:
    trail = AuditTrail()
    piece = recorded(*(activated(names=80),) * 100)
    for _ in range(40):
        trail.extend(piece)
    view = trail.view()
    assert view.end == 4000
    kept = view.lines(0, AUDIT_KEPT)
    assert AUDIT_BYTES * 3 // 4 < sum(map(len, kept)) <= AUDIT_BYTES
    assert len(kept) == len(view) < 4000


# --- activations that wait for their record ---


def test_what_waits_is_due_after_a_moment_or_when_it_is_many() -> None:
    waiting = AuditBuffer()
    assert waiting.due_at() is None
    assert waiting.add(activated(), 10.0)
    assert not waiting.add(activated(), 10.0 + DELAY / 2)
    assert waiting.due_at() == 10.0 + DELAY
    early = 10.0 + DELAY * 0.9
    assert not waiting.due(early)
    assert waiting.due(10.0 + DELAY)
    woken = [waiting.add(activated(), early) for _ in range(MANY)]
    assert sum(woken) == 1
    assert waiting.due(early)


def test_what_is_recorded_waits_no_longer_and_the_rest_does() -> None:
    waiting = AuditBuffer()
    for _ in range(TOGETHER + 1):
        waiting.add(activated(), 0.0)
    record = waiting.oldest()
    assert len(record.activations) == TOGETHER
    assert len(waiting) == TOGETHER + 1  # activations stay until their record is durable
    waiting.recorded(record, 5.0)
    assert len(waiting) == 1
    assert waiting.due_at() == 5.0 + DELAY
    assert waiting.discard() == 1


def test_nobody_joins_who_could_never_be_audited() -> None:
    waiting = AuditBuffer()
    for _ in range(MOST):
        waiting.add(activated(), 0.0)
    with pytest.raises(UnavailableError):
        waiting.add(activated(), 0.0)
