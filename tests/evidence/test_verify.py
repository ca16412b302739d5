"""Evidence with every part of it is verified, and damaged files are refused at their step."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from support.evidence import BEGUN, GOLDEN, Maker, golden_pins, history
from support.evidence_damage import FILES, HISTORIES
from support.samples.snp_vms import VM

from keyhouse.evidence.bundle import Evidence, read_evidence, write_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.hardware import vouched_start
from keyhouse.evidence.history import Gap
from keyhouse.evidence.page import page_of
from keyhouse.evidence.report import rows_of
from keyhouse.evidence.verify import NO_WITNESSES, require_no_gaps, verify
from keyhouse.transparency.leaf import Started, object_name, read_leaf
from keyhouse.transparency.policy import Policy

GOOD = (GOLDEN / "deployment.evidence.json").read_bytes()


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker()


@pytest.fixture(scope="module", name="evidence")
def _evidence(maker: Maker) -> Evidence:
    return maker.evidence(history(maker), milestones=(3, 8))


def test_the_recorded_file_is_proven_without_a_gap() -> None:
    verified = verify(read_evidence(GOOD), golden_pins())

    require_no_gaps(verified)
    assert verified.gaps == {}
    assert [row.text.partition(" ")[0] for row in rows_of(verified)] == [
        *("the", "first", "started", "writer", "releaser", "alice", "bob", "manifest", "writer"),
        *("anchors", "started"),
    ]
    assert [each.time for each in verified.milestones] == [
        BEGUN + timedelta(minutes=size, seconds=1) for size in (3, 8, 11)
    ]


def test_an_entry_has_the_time_of_the_first_checkpoint_over_it() -> None:
    verified = verify(read_evidence(GOOD), golden_pins())

    times = [each.time for each in verified.entries]
    assert times == [
        BEGUN + timedelta(minutes=size, seconds=1) for size in (*(3 * [3]), *(5 * [8]), *(3 * [11]))
    ]


@pytest.mark.parametrize("rule", FILES)
def test_a_damaged_file_is_refused_at_its_step(rule: str) -> None:
    damage, step = FILES[rule]

    with pytest.raises(EvidenceRefusedError) as refused:
        verify(read_evidence(damage(GOOD)), golden_pins())

    assert refused.value.step is step


@pytest.mark.parametrize("rule", HISTORIES)
def test_a_history_that_all_sign_and_no_coordinator_has_is_refused(maker: Maker, rule: str) -> None:
    said = history(maker)
    HISTORIES[rule](said)

    with pytest.raises(EvidenceRefusedError) as refused:
        require_no_gaps(verify(maker.evidence(said), maker.pins()))

    assert refused.value.step is Step.HISTORY


def test_code_that_started_before_has_to_be_accepted(maker: Maker) -> None:
    said = history(maker)
    other = maker.platform.expected_identity
    said[2]["unique"] = "1" * 64
    evidence = maker.evidence(said)

    with pytest.raises(EvidenceRefusedError, match=r"entry 2: .*UniqueID"):
        verify(evidence, maker.pins())
    accepted = replace(other, unique_id=b"\x11" * 32)
    verified = verify(evidence, maker.pins(accepted=(accepted,)))

    assert rows_of(verified)[-1].text.endswith("CHANGED")


def test_a_start_that_witnesses_saw_late_is_judged_at_its_claimed_time(maker: Maker) -> None:
    late = BEGUN + timedelta(days=2 * 365)

    verified = verify(maker.evidence(history(maker), seen=late), maker.pins())

    assert verified.gaps == {Gap.CLAIMED_TIME: (2, 10)}


def test_a_start_without_collateral_asks_for_none(maker: Maker) -> None:
    said = history(maker)
    said[2]["collateral"] = ""
    evidence = maker.evidence(said)
    leaf = read_leaf(next(raw for raw in evidence.entries[2:] if isinstance(raw, bytes)))
    assert isinstance(leaf, Started)

    gaps = vouched_start(
        evidence.objects.__getitem__, maker.root, maker.pins(), leaf, (2, bytes(32)), None
    )

    assert gaps == (Gap.NO_COLLATERAL,)


def test_without_a_pin_any_deployment_could_be_shown(maker: Maker, evidence: Evidence) -> None:
    first = evidence.entries[1]
    assert isinstance(first, bytes)
    manifest = object_name(next(raw for raw in evidence.objects.values() if b"second" not in raw))

    with pytest.raises(EvidenceRefusedError, match="is pinned"):
        verify(evidence, maker.pins(root="", manifest=""))
    with pytest.raises(EvidenceRefusedError, match="first manifest"):
        verify(evidence, maker.pins(manifest="0" * 64))
    with pytest.raises(EvidenceRefusedError, match="first manifest"):
        verify(evidence, maker.pins(root="", manifest="0" * 64))
    verified = verify(evidence, maker.pins(root="", manifest=manifest))

    assert list(verified.gaps) == [
        "that no other deployment began with the same manifest: the root is not pinned"
    ]


def test_a_package_update_may_be_several_leaves_of_one_approval(maker: Maker) -> None:
    said = history(maker)
    said.insert(5, {**said[4], "approval": ...})

    require_no_gaps(verify(maker.evidence(said), maker.pins()))
    said.insert(5, {**said[3], "time": said[4]["time"]})
    with pytest.raises(EvidenceRefusedError, match="another place"):
        verify(maker.evidence(said), maker.pins())


def test_a_coordinator_in_a_confidential_vm_of_amd_is_refused_plainly(
    maker: Maker, evidence: Evidence
) -> None:
    report = maker.platform.snp_quote(VM, bytes(64))
    head = replace(evidence.head, quote=report, collateral="0" * 64)

    with pytest.raises(EvidenceRefusedError, match="a report of SEV-SNP") as refused:
        verify(replace(evidence, head=head), maker.pins())

    assert refused.value.step is Step.HARDWARE


def test_no_witnesses_are_told(maker: Maker, evidence: Evidence) -> None:
    verified = verify(evidence, maker.pins(policy=None))

    assert list(verified.gaps) == [NO_WITNESSES]
    assert {each.time for each in verified.entries} == {None}
    with pytest.raises(EvidenceRefusedError, match="no witness"):
        require_no_gaps(verified)


def test_a_policy_that_needs_no_witness_has_no_quorum(maker: Maker, evidence: Evidence) -> None:
    with pytest.raises(EvidenceRefusedError, match="no quorum"):
        verify(evidence, maker.pins(policy=Policy.read("quorum none\n")))


def test_a_policy_about_other_logs_does_not_fit(maker: Maker, evidence: Evidence) -> None:
    other = Maker()

    verify(evidence, maker.pins(policy=Policy.read(f"log {maker.key}\n{maker.policy}")))
    with pytest.raises(EvidenceRefusedError, match="other logs"):
        verify(evidence, maker.pins(policy=Policy.read(f"log {other.key}\n{maker.policy}")))


def test_a_file_that_is_too_old_is_refused(maker: Maker, evidence: Evidence) -> None:
    witnessed = BEGUN + timedelta(minutes=11, seconds=1)
    age = timedelta(minutes=5)

    verify(evidence, maker.pins(max_age=age, now=witnessed + age))
    with pytest.raises(EvidenceRefusedError, match="maximum age"):
        verify(evidence, maker.pins(max_age=age, now=witnessed + 2 * age))


def test_what_is_not_in_the_file_is_told(maker: Maker, evidence: Evidence) -> None:
    objects = dict(evidence.objects)
    for name, raw in evidence.objects.items():
        if raw.startswith((b'{"payload"', b'{"Packages":{"app":{"SecurityVersion"')):
            del objects[name]
    verified = verify(replace(evidence, objects=objects), maker.pins())

    assert verified.gaps == {Gap.NOT_SIGNED: (4, 5, 6), Gap.NO_APPROVAL: (4, 5, 6)}


def test_a_claimed_time_after_the_witnesses_is_told(maker: Maker) -> None:
    said = history(maker)
    late = datetime(2026, 11, 22, 13, tzinfo=UTC)
    said[-1]["time"] = int(late.timestamp()) * 1_000_000

    verified = verify(maker.evidence(said), maker.pins())

    assert list(verified.gaps.values()) == [(10,)]


def test_a_page_escapes_what_the_file_says(maker: Maker) -> None:
    said = history(maker)
    said[2]["version"] = "<script>alert(1)</script>"

    page = page_of(verify(maker.evidence(said), maker.pins())).decode()

    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "SIMULATION" in page


def test_the_file_has_one_form(evidence: Evidence) -> None:
    assert read_evidence(write_evidence(evidence)) == evidence
    assert write_evidence(read_evidence(GOOD)) == GOOD
