"""Checkpoints of evidence files: their order and number, quorums, and times of witnesses."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from support.evidence import BEGUN, Maker, history

from keyhouse.evidence.bundle import Evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.milestones import LATE, MOST_OF_A_SIZE, WholeTree, date_of
from keyhouse.evidence.verify import Verified, examine, verify
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import signature_of
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.tree import Frontier, leaf_hash

SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker(ml_dsa=False)


@pytest.fixture(scope="module", name="evidence")
def _evidence(maker: Maker) -> Evidence:
    return maker.evidence(history(maker), milestones=(3, 8))


def frontier(evidence: Evidence, size: int) -> Frontier:
    entries = [each for each in evidence.entries[:size] if isinstance(each, bytes)]
    return Frontier().extended(map(leaf_hash, entries))


def note(
    maker: Maker, tree: Frontier, *times: datetime, origin: str = "", extra: bytes = b""
) -> str:
    """Return a checkpoint that the log signed, and one witness at each of ``times``."""
    text = Checkpoint(origin or maker.origin, tree.size, tree.root).encode() + extra
    lines = [
        witness.line(text, int(at.timestamp()))
        for witness, at in zip(maker.witnesses, times, strict=False)
    ]
    signed = SignedNote(text, (signature_of(maker.log, maker.key, text), *lines))
    return signed.encode().decode()


def refusal(maker: Maker, evidence: Evidence, *checkpoints: str) -> EvidenceRefusedError:
    changed = replace(evidence, checkpoints=(*checkpoints, evidence.checkpoints[-1]))
    with pytest.raises(EvidenceRefusedError) as refused:
        verify(changed, maker.pins())
    return refused.value


def proven(maker: Maker, evidence: Evidence, *checkpoints: str) -> Verified:
    changed = replace(evidence, checkpoints=(*checkpoints, evidence.checkpoints[-1]))
    return verify(changed, maker.pins())


def test_a_checkpoint_of_another_log_or_with_more_lines_is_refused(
    maker: Maker, evidence: Evidence
) -> None:
    tree = frontier(evidence, 3)

    for raw in (
        note(maker, tree, origin="log.example.org/other"),
        note(maker, tree, extra=b"more\n"),
    ):
        refused = refusal(maker, evidence, raw)
        assert refused.step is Step.TREE
        assert "belongs to another log" in refused.message


def test_sizes_do_not_fall_and_none_is_empty(maker: Maker, evidence: Evidence) -> None:
    three, five = (note(maker, frontier(evidence, size)) for size in (3, 5))

    proven(maker, evidence, note(maker, frontier(evidence, 1)), three, three, five)
    for raws in ((five, three), (note(maker, Frontier()),)):
        refused = refusal(maker, evidence, *raws)
        assert refused.step is Step.TREE
        assert "out of order" in refused.message


def test_as_many_checkpoints_of_one_size_as_exports_make(maker: Maker, evidence: Evidence) -> None:
    three, five = (note(maker, frontier(evidence, size)) for size in (3, 5))

    assert MOST_OF_A_SIZE == 64
    proven(maker, evidence, *[three] * 64, *[five] * 64)
    refused = refusal(maker, evidence, *[three] * 65)
    assert refused.step is Step.TREE
    assert re.search("64 .*3 entries", refused.message)


def test_the_time_of_a_quorum_is_its_lower_median(maker: Maker, evidence: Evidence) -> None:
    tree = frontier(evidence, 3)
    two = note(maker, tree, BEGUN, BEGUN + 9 * SECOND)
    three = note(maker, tree, BEGUN + 9 * SECOND, BEGUN, BEGUN + 4 * SECOND)

    first, second, third = (
        proven(maker, evidence, raw).milestones[0] for raw in (note(maker, tree, BEGUN), two, three)
    )

    assert (first.time, first.witnesses) == (None, ("W0",))
    assert (second.time, second.witnesses) == (BEGUN, ("W0", "W1"))
    assert (third.time, third.witnesses) == (BEGUN + 4 * SECOND, ("W0", "W1", "W2"))


@pytest.mark.parametrize(("late", "counts"), [(timedelta(), True), (SECOND, False)])
def test_a_cosignature_may_be_ten_minutes_after_the_verifiers_clock(
    maker: Maker, evidence: Evidence, late: timedelta, *, counts: bool
) -> None:
    now = BEGUN + timedelta(hours=2)
    at = now + timedelta(minutes=10) + late
    end = note(maker, frontier(evidence, 3), at, at)
    pins = maker.pins(now=now)
    changed = replace(evidence, checkpoints=(end, evidence.checkpoints[-1]))

    if counts:  # and then those after it are too early
        with pytest.raises(EvidenceRefusedError, match=f"{Step.WITNESSES}: .*11 entries"):
            verify(changed, pins)
        return
    assert verify(changed, pins).milestones[0].time is None


@pytest.mark.parametrize(("back", "fits"), [(timedelta(), True), (SECOND, False)])
def test_times_may_fall_by_ten_minutes_to_the_second(
    maker: Maker, evidence: Evidence, back: timedelta, *, fits: bool
) -> None:
    assert timedelta(minutes=10) == LATE
    end = examine(evidence, maker.pins()).witnessed
    assert end is not None
    at = end + LATE + back
    changed = replace(
        evidence, checkpoints=(note(maker, frontier(evidence, 3), at, at), evidence.checkpoints[-1])
    )

    if fits:
        verify(changed, maker.pins())
        return
    with pytest.raises(EvidenceRefusedError, match=f"{Step.WITNESSES}: .*11 entries"):
        verify(changed, maker.pins())


def test_without_pins_no_checkpoint_has_a_time(evidence: Evidence) -> None:
    found = examine(evidence, None)

    assert {(each.time, each.witnesses) for each in found.milestones} == {(None, ())}


def test_without_witnesses_there_is_no_age(maker: Maker, evidence: Evidence) -> None:
    with pytest.raises(EvidenceRefusedError, match=f"{Step.WITNESSES}: .*9 days"):
        verify(evidence, maker.pins(policy=None, max_age=timedelta(days=9)))


@pytest.mark.parametrize("size", range(1, 12))
def test_every_root_of_the_tree_is_that_of_its_first_entries(evidence: Evidence, size: int) -> None:
    tree = WholeTree(evidence.hashes)

    assert tree.root(size) == frontier(evidence, size).root
    assert tree.root(0) == Frontier().root
    assert WholeTree([]).root(0) == Frontier().root
    assert WholeTree([]).size == 0


@pytest.mark.parametrize("seconds", [2**63 - 1, 2**62, 10**12, -(10**15)])
def test_a_time_that_is_not_a_date_is_refused(seconds: int) -> None:
    assert date_of(1) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    with pytest.raises(LogInvalidError, match=str(seconds)):
        date_of(seconds)
