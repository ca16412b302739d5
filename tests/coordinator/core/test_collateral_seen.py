"""The journal's marks of collateral: they only rise, are limited, and never expire."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from immutables import Map
from msgspec.structs import asdict, replace
from support.samples.crafted import made
from support.samples.deployment import (
    NOW,
    FixedClock,
    crashing_engine,
    manifest,
    new_process,
    running_engine,
    set_manifest,
)
from support.samples.recovery import holders, recoverable

from keyhouse.attestation import CollateralUnavailableError, Mark, newer_marks, require_as_new
from keyhouse.coordinator import Running, SeeCollateral
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.records import decode_events, encode_events

DAY = 24 * 3600 * 1_000_000
CONTEXT = Context(now=NOW, **asdict(new_process()))

NAMES = st.sampled_from(["tcb-info/sgx/00a067110000", "qe-identity/sgx", "root-crl", "pck-crl/x"])
MARKS = st.builds(Mark, number=st.integers(0, 3), issued=st.integers(0, 3))


@pytest.fixture(scope="module")
def running() -> Running:
    return made(recoverable(holders(1))).running


def seen(state: Running, marks: dict[str, Mark]) -> Running:
    """Return ``state`` after collateral with ``marks``, encoded and decoded as in the journal."""
    events = decide(state, SeeCollateral(marks), CONTEXT)
    after = evolve_all(state, decode_events(encode_events(events)))
    assert isinstance(after, Running)
    return after


@given(st.lists(st.dictionaries(NAMES, MARKS), max_size=6))
@settings(max_examples=60)
def test_marks_never_go_down_and_what_was_seen_is_never_seen_again(
    running: Running, history: list[dict[str, Mark]]
) -> None:
    state = running
    for marks in history:
        before, state = state.collateral_marks, seen(state, marks)
        require_as_new(dict(state.collateral_marks.items()), before)
        assert decide(state, SeeCollateral(marks), CONTEXT) == ()


@pytest.mark.parametrize(
    ("name", "mark", "refused"),
    [
        ("tcb-info/sgx/00", Mark(16, NOW + DAY), True),
        ("qe-identity/sgx", Mark(16, NOW + DAY), True),
        ("qe-identity/sgx", Mark(17, NOW - DAY), False),  # signed again for each answer
        ("root-crl", Mark(16, NOW), True),
        ("pck-crl/platform", Mark(17, NOW - DAY), True),  # the number stays for years
        ("pck-crl/platform", Mark(17, NOW), False),
        ("pck-crl/processor", Mark(1, 0), False),  # without a mark
    ],
)
def test_what_is_older_is_refused_by_name(name: str, mark: Mark, *, refused: bool) -> None:
    names = ("tcb-info/sgx/00", "qe-identity/sgx", "root-crl", "pck-crl/platform")
    known = dict.fromkeys(names, Mark(17, NOW))
    if name not in known:
        assert newer_marks({name: mark}, known) == {name: mark}
    if not refused:
        require_as_new({name: mark}, known)
        return
    with pytest.raises(CollateralUnavailableError, match=rf"{name} .*\b{mark.number}\b"):
        require_as_new({name: mark}, known)


def test_only_so_many_kinds_of_platforms_are_remembered(running: Running) -> None:
    kinds = {f"tcb-info/sgx/{number:012x}": Mark(1, NOW) for number in range(256)}
    *most, last = kinds
    nearly = seen(running, {name: kinds[name] for name in most})
    full = seen(nearly, {last: kinds[last]})
    assert len(full.collateral_marks) == 256
    one_more = {"tcb-info/sgx/ffffffffffff": Mark(1, NOW)}
    assert decide(full, SeeCollateral(one_more), CONTEXT) == ()
    after = seen(full, {**one_more, "qe-identity/sgx": Mark(1, NOW)})
    assert set(after.collateral_marks) - set(full.collateral_marks) == {"qe-identity/sgx"}
    raised = seen(full, {next(iter(kinds)): Mark(2, NOW)})
    assert raised.collateral_marks != full.collateral_marks


def test_a_base_keeps_the_marks_and_an_old_one_has_none(running: Running) -> None:
    state = replace(running, collateral_marks=Map({"root-crl": Mark(5, NOW)}))
    payloads = list(encode_events(base_events(state, UpdateLog().view())))
    assert evolve_all(None, decode_events(payloads)) == state
    first, *rest = decode_events(payloads)
    older = replace(first, collateral_marks={})
    assert evolve_all(None, (older, *rest)) == running


async def test_marks_survive_a_crash_and_a_clean_restart(tmp_path: Path) -> None:
    marks = {"root-crl": Mark(5, NOW - DAY), "pck-crl/platform": Mark(1, NOW)}
    async with crashing_engine(tmp_path / "state") as engine:
        before = await engine.submit(SeeCollateral(marks))
        assert not isinstance(before.state, Running)  # without a manifest there are no marks
        await set_manifest(engine, manifest())
        await engine.submit(SeeCollateral(marks))
    # The clock was turned back. The journal keeps the time and the marks.
    async with running_engine(tmp_path / "state", clock=FixedClock(NOW - 300 * DAY)) as engine:
        assert dict(engine.view.running.collateral_marks.items()) == marks
        assert engine.current.now() >= NOW
        sequence = engine.view.position
        assert (await engine.submit(SeeCollateral(marks))).position == sequence
    async with running_engine(tmp_path / "state") as engine:
        assert dict(engine.view.running.collateral_marks.items()) == marks
