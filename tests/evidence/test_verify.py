"""Evidence with every part of it is verified, and damaged files are refused at their step."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from support.evidence import (
    BEGUN,
    GOLDEN,
    GOLDEN_PUBLIC,
    Maker,
    Said,
    golden_pins,
    history,
    written,
)
from support.evidence_damage import FILES, HISTORIES
from support.forger import Draft, honest
from support.forger.draft import built, cosigned
from support.forger.rare import packages_in_two_leaves
from support.samples.snp_vms import VM

from keyhouse.attestation import INTEL_SGX_ROOT, ExpectedIdentity, IdentityRefusedError
from keyhouse.evidence.bundle import Evidence, Hidden, read_evidence, write_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, HistoryRefusedError, Step
from keyhouse.evidence.gaps import Claim, Gap
from keyhouse.evidence.hardware import vouched_start
from keyhouse.evidence.history import History, LogIdentity
from keyhouse.evidence.report import rows_of
from keyhouse.evidence.verify import Judged, Outcome, examine, require_allowed, verify
from keyhouse.transparency.leaf import (
    ManifestUpdatedLeaf,
    RecoveredLeaf,
    StartedLeaf,
    object_name,
    read_leaf,
)
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import CosignaturePolicy
from keyhouse.transparency.tree import Frontier
from keyhouse.wire.kinds.tdx import TdxIdentity

DAY = timedelta(days=1)
GOOD = (GOLDEN / "deployment.evidence.json").read_bytes()


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker()


@pytest.fixture(scope="module", name="evidence")
def _evidence(maker: Maker) -> Evidence:
    return maker.evidence(history(maker), milestones=(3, 8))


@pytest.mark.parametrize("folder", [GOLDEN, GOLDEN_PUBLIC], ids=lambda folder: folder.name)
def test_the_recorded_file_is_proven_without_a_gap(folder: Path) -> None:
    raw = (folder / "deployment.evidence.json").read_bytes()

    verified = verify(read_evidence(raw), golden_pins(folder))

    assert verified.gaps == {}
    assert verified.claims == {Claim.UPLOAD: (3, 8)}
    assert verified.outcome is Outcome.PROVEN
    assert [row.text.partition(" ")[0] for row in rows_of(verified)] == [
        *("the", "first", "started", "writer", "releaser", "alice", "bob", "manifest", "writer"),
        *("no", "started"),
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
        verify(maker.evidence(said), maker.pins())

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

    assert rows_of(verified)[-1].text.endswith("CHANGED: other code than before")


def test_a_quote_of_other_code_than_stated_is_refused_though_both_are_accepted(
    maker: Maker,
) -> None:
    draft = honest(maker, Random(2), plain=True)  # noqa: S311 a history of a test
    leaf = next(each for each in draft.said if each["kind"] == "started")
    other = replace(maker.platform.measurements, unique_id=b"\x11" * 32)
    leaf["_quote"] = {"code": other}
    accepted = replace(maker.platform.expected_identity, unique_id=other.unique_id)

    with pytest.raises(EvidenceRefusedError, match=r"entry \d+: .*other code"):
        verify(built(maker, draft), maker.pins(accepted=(accepted,)))


def test_a_start_that_witnesses_saw_late_is_judged_at_its_claimed_time(maker: Maker) -> None:
    late = BEGUN + timedelta(days=2 * 365)

    verified = examine(maker.evidence(history(maker), seen=late), maker.pins(now=late + DAY))

    assert verified.gaps == {Gap.START_AT_CLAIMED_TIME: (2, 10)}


def test_without_witnesses_a_start_is_judged_at_its_claimed_time_alone(maker: Maker) -> None:
    said = history(maker)
    for leaf in said[2:]:
        leaf["time"] += 2 * 365 * 86_400 * 1_000_000
    alone = maker.pins(policy=None, allowed=frozenset({Gap.NO_WITNESSES}))

    verify(maker.evidence(history(maker)), alone)
    with pytest.raises(EvidenceRefusedError, match=r"entry 2: .*has expired"):
        verify(maker.evidence(said), alone)


def test_the_claimed_time_of_a_start_counts_to_the_second(maker: Maker) -> None:
    end = BEGUN + timedelta(days=364, seconds=-1)  # of the revocation lists
    late = BEGUN + timedelta(days=2 * 365)
    for after, fits in ((0, True), (1, False)):
        said = history(maker)
        for leaf in said[2:]:
            leaf["time"] = int(end.timestamp() + after) * 1_000_000
        evidence, pins = maker.evidence(said, seen=late), maker.pins(now=late + DAY)
        if fits:
            assert examine(evidence, pins).gaps == {Gap.START_AT_CLAIMED_TIME: (2, 10)}
            continue
        with pytest.raises(EvidenceRefusedError, match=r"entry 2: .*has expired"):
            examine(evidence, pins)


def test_one_of_several_codes_has_to_be_accepted_and_the_first_refusal_is_told(
    maker: Maker,
) -> None:
    vm = ExpectedIdentity(tdx=TdxIdentity(mrtd="0" * 96))
    other = replace(maker.platform.expected_identity, unique_id=b"\x11" * 32)
    evidence = maker.evidence(history(maker))

    verify(evidence, maker.pins(accepted=(vm, other)))
    said = history(maker)
    said[2]["unique"] = "2" * 64
    with pytest.raises(EvidenceRefusedError, match=r"entry 2: .*UniqueID"):
        verify(maker.evidence(said), maker.pins(accepted=(vm,)))


def test_without_pins_nothing_is_judged_but_the_history(evidence: Evidence) -> None:
    found = examine(evidence, None)

    assert (found.outcome, found.head) == (Outcome.NOT_VERIFIED, None)
    assert list(found.gaps) == [Gap.NOTHING_PINNED]
    assert not found.is_simulated
    with pytest.raises(EvidenceRefusedError, match=Gap.NOTHING_PINNED):
        require_allowed(found)


def test_uploads_and_recoveries_are_claims() -> None:
    after = History(LogIdentity("log.example", "a" * 64, "a key"))
    recovered = RecoveredLeaf(time=1, at=f"1.9.{'0' * 64}", holders=("ann",))

    assert Judged(recovered, None, (), after).claims == (Claim.RECOVERY,)
    assert Judged(None, None, (), after).claims == ()


def test_the_result_is_a_simulation_under_another_root_than_intels(
    maker: Maker, evidence: Evidence
) -> None:
    found = verify(evidence, maker.pins())

    assert found.is_simulated
    assert not replace(found, pins=maker.pins(vendor_root=INTEL_SGX_ROOT)).is_simulated
    assert found.witnessed == BEGUN + timedelta(minutes=11, seconds=1)


@pytest.mark.parametrize("number", [1, 2])
def test_a_log_without_its_first_manifest_does_not_prove_which(
    maker: Maker, evidence: Evidence, number: int
) -> None:
    entries = evidence.entries[:number]
    hidden = Hidden(evidence.hashes[1])
    changed = replace(evidence, entries=(entries[0], hidden) if number > 1 else entries)

    with pytest.raises(EvidenceRefusedError, match=f"{Step.DEPLOYMENT}: .*first manifest"):
        examine(changed, maker.pins(root="", manifest="0" * 64))


def test_two_entries_are_enough_to_prove_the_first_manifest(maker: Maker) -> None:
    said = history(maker)[:2]

    found = examine(maker.evidence(said), maker.pins(root="", manifest=said[1]["manifest"]))

    assert list(found.gaps) == [Gap.ROOT_NOT_PINNED]


def test_a_log_that_ends_too_early_is_refused_at_its_end(maker: Maker) -> None:
    with pytest.raises(EvidenceRefusedError, match=r"the end: .*update"):
        verify(maker.evidence(history(maker)[:7]), maker.pins())


def test_the_last_intermediate_is_that_of_the_file(maker: Maker) -> None:
    said = history(maker)
    said[7]["intermediate"] = "a" * 64
    with pytest.raises(EvidenceRefusedError, match="a" * 64):
        verify(maker.evidence(said[:8]), maker.pins())


@pytest.mark.parametrize(("late", "gaps"), [(0, {}), (1, {Gap.CLAIMED_TIME_LATE: (10,)})])
def test_a_claimed_time_may_be_ten_minutes_after_the_witnesses(
    maker: Maker, late: int, gaps: dict[Gap, tuple[int, ...]]
) -> None:
    said = history(maker)
    seen = BEGUN + timedelta(minutes=21, seconds=1)
    said[-1]["time"] = int(seen.timestamp()) * 1_000_000 + late

    assert examine(maker.evidence(said), maker.pins()).gaps == gaps


def test_a_checkpoint_without_a_quorum_gives_no_entry_a_time(
    maker: Maker, evidence: Evidence
) -> None:
    early = SignedNote.read(evidence.checkpoints[0].encode())
    alone = SignedNote(early.text, early.signatures[:2])
    changed = replace(evidence, checkpoints=(alone.encode().decode(), *evidence.checkpoints[1:]))

    times = [each.time for each in verify(changed, maker.pins()).entries]

    assert times[:8] == [BEGUN + timedelta(minutes=8, seconds=1)] * 8


def test_votes_that_users_signed_are_counted(evidence: Evidence, maker: Maker) -> None:
    entries = verify(evidence, maker.pins()).entries
    signed = [each.after.pending.signed for each in entries if each.after.pending is not None]

    assert signed == [("alice",), ("alice", "bob")]


def test_a_start_without_collateral_asks_for_none(maker: Maker) -> None:
    said = history(maker)
    said[2]["collateral"] = ""
    evidence = maker.evidence(said)
    leaf = read_leaf(next(raw for raw in evidence.entries[2:] if isinstance(raw, bytes)))
    assert isinstance(leaf, StartedLeaf)

    gaps = vouched_start(
        evidence.objects.__getitem__, maker.root, maker.pins(), leaf, (2, bytes(32)), None
    )

    assert gaps == (Gap.START_WITHOUT_COLLATERAL,)


def test_without_a_pin_any_deployment_could_be_shown(maker: Maker, evidence: Evidence) -> None:
    first = evidence.entries[1]
    assert isinstance(first, bytes)
    manifest = object_name(next(raw for raw in evidence.objects.values() if b"second" not in raw))

    with pytest.raises(EvidenceRefusedError, match="pinned neither"):
        verify(evidence, maker.pins(root="", manifest=""))
    with pytest.raises(EvidenceRefusedError, match="first manifest"):
        verify(evidence, maker.pins(manifest="0" * 64))
    with pytest.raises(EvidenceRefusedError, match="first manifest"):
        verify(evidence, maker.pins(root="", manifest="0" * 64))
    verified = examine(evidence, maker.pins(root="", manifest=manifest))

    assert list(verified.gaps) == [Gap.ROOT_NOT_PINNED]


def test_a_package_update_may_be_several_leaves_of_one_approval(maker: Maker) -> None:
    chance = Random(1)  # noqa: S311 a history of a test
    draft = packages_in_two_leaves(maker, chance).draft
    verify(built(maker, draft), maker.pins())

    draft.said.append(draft.said[-1])
    with pytest.raises(EvidenceRefusedError, match=r'entry 5: .*"web"'):
        verify(built(maker, draft), maker.pins())
    draft.said.pop()
    upload = history(maker)[3]
    draft.said.insert(-1, {**upload, "time": draft.said[-1]["time"]})
    with pytest.raises(EvidenceRefusedError, match=r"entry 5: .*head"):
        verify(built(maker, draft), maker.pins())


def test_a_coordinator_in_a_confidential_vm_of_amd_is_refused_plainly(
    maker: Maker, evidence: Evidence
) -> None:
    report = maker.platform.snp_quote(VM, bytes(64))
    head = replace(evidence.head, quote=report, collateral="0" * 64)

    with pytest.raises(EvidenceRefusedError, match="SEV-SNP") as refused:
        verify(replace(evidence, head=head), maker.pins())

    assert refused.value.step is Step.HARDWARE


def test_no_witnesses_are_told(maker: Maker, evidence: Evidence) -> None:
    verified = examine(evidence, maker.pins(policy=None))

    assert list(verified.gaps) == [Gap.NO_WITNESSES]
    assert {each.time for each in verified.entries} == {None}
    with pytest.raises(EvidenceRefusedError, match=Gap.NO_WITNESSES) as refused:
        verify(evidence, maker.pins(policy=None))
    assert refused.value.reason == "gaps"
    allowed = verify(evidence, maker.pins(policy=None, allowed=frozenset({Gap.NO_WITNESSES})))
    assert allowed.outcome is Outcome.EXCEPT_ALLOWED


def test_a_policy_that_needs_no_witness_has_no_quorum(maker: Maker, evidence: Evidence) -> None:
    with pytest.raises(EvidenceRefusedError, match=f"{Step.WITNESSES}: .*no quorum"):
        verify(evidence, maker.pins(policy=CosignaturePolicy.read("quorum none\n")))


def test_a_policy_about_other_logs_does_not_fit(maker: Maker, evidence: Evidence) -> None:
    other = Maker()

    verify(evidence, maker.pins(policy=CosignaturePolicy.read(f"log {maker.key}\n{maker.policy}")))
    with pytest.raises(EvidenceRefusedError, match=f"{Step.LOG_KEY}: .*policy"):
        verify(
            evidence, maker.pins(policy=CosignaturePolicy.read(f"log {other.key}\n{maker.policy}"))
        )


def test_a_file_that_is_too_old_is_refused(maker: Maker, evidence: Evidence) -> None:
    witnessed = BEGUN + timedelta(minutes=11, seconds=1)
    age = timedelta(minutes=5)

    verify(evidence, maker.pins(max_age=age, now=witnessed + age))
    with pytest.raises(EvidenceRefusedError, match=f"{Step.WITNESSES}: .*{age}"):
        verify(evidence, maker.pins(max_age=age, now=witnessed + 2 * age))


def test_an_object_that_an_entry_names_and_the_file_lacks_is_refused(
    maker: Maker, evidence: Evidence
) -> None:
    refused = {}
    for name, raw in evidence.objects.items():
        objects = {each: content for each, content in evidence.objects.items() if each != name}
        with pytest.raises(EvidenceRefusedError) as refusal:
            verify(replace(evidence, objects=objects), maker.pins())
        refused[raw[:14]] = refusal.value.step

    assert set(refused.values()) == {Step.HISTORY, Step.HARDWARE}


def test_a_manifest_left_out_of_an_old_log_is_a_gap_that_has_to_be_allowed() -> None:
    evidence = read_evidence(GOOD)
    second = read_leaf(evidence.entries[7] if isinstance(evidence.entries[7], bytes) else b"")
    assert isinstance(second, ManifestUpdatedLeaf)
    assert second.public is UNSET
    objects = {name: raw for name, raw in evidence.objects.items() if name != second.manifest}
    without = replace(evidence, objects=objects)

    found = examine(without, golden_pins())

    assert found.gaps == {Gap.MANIFEST_MISSING: (5, 7), Gap.RIGHTS_UNKNOWN: (8,)}
    assert found.outcome is Outcome.GAPS
    for allowed in found.gaps:
        (other,) = found.gaps.keys() - {allowed}
        with pytest.raises(EvidenceRefusedError, match=other):
            verify(without, golden_pins(allowed=frozenset({allowed})))
    assert verify(without, golden_pins(allowed=frozenset(found.gaps))).gaps == found.gaps


def test_a_claimed_time_after_the_witnesses_is_told(maker: Maker) -> None:
    said = history(maker)
    late = datetime(2026, 11, 22, 13, tzinfo=UTC)
    said[-1]["time"] = int(late.timestamp()) * 1_000_000

    assert examine(maker.evidence(said), maker.pins()).gaps == {Gap.CLAIMED_TIME_LATE: (10,)}


def test_a_file_that_was_made_in_the_future_is_refused_without_witnesses(
    maker: Maker, evidence: Evidence
) -> None:
    made = BEGUN + timedelta(hours=1)
    alone = {"policy": None, "allowed": frozenset({Gap.NO_WITNESSES})}

    verify(evidence, maker.pins(**alone, now=made - timedelta(minutes=10)))
    with pytest.raises(EvidenceRefusedError, match="future") as refused:
        verify(evidence, maker.pins(**alone, now=made - timedelta(minutes=10, seconds=1)))

    assert refused.value.step is Step.HARDWARE


@pytest.mark.parametrize(("back", "fits"), [(9, True), (11, False)])
def test_clocks_of_witnesses_may_differ_by_ten_minutes(
    maker: Maker, back: int, *, fits: bool
) -> None:
    draft = honest(maker, Random(1), plain=True)  # noqa: S311 a history of a test
    draft.milestones = {2}
    size, minutes = len(draft.said), timedelta(minutes=1)
    seen = timedelta(minutes=20)

    def noted(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
        at = seen if tree.size < size else seen - back * minutes
        return cosigned(maker, draft, tree, times=(at - tree.size * minutes,) * 3)

    draft.note = noted
    pins = maker.pins()
    if fits:
        assert verify(built(maker, draft), pins).outcome is Outcome.PROVEN
        return
    with pytest.raises(EvidenceRefusedError, match=f"{Step.WITNESSES}: .* {size} entries"):
        verify(built(maker, draft), pins)


def test_a_start_in_a_confidential_vm_states_no_code(maker: Maker) -> None:
    said = history(maker)[2]
    said["collateral"] = ""
    stated = {**said, "quote": "", "unique": "", "signer": "", "product": 0, "svn": 0}
    no_objects: dict[str, bytes] = {}
    vm = ExpectedIdentity(tdx=TdxIdentity(mrtd="0" * 96))

    def judged(leaf: Said, identity: ExpectedIdentity) -> tuple[Gap, ...]:
        found = read_leaf(written(leaf))
        assert isinstance(found, StartedLeaf)
        pins = maker.pins(identity=identity)
        return vouched_start(no_objects.get, maker.root, pins, found, (2, bytes(32)), None)

    enclave = maker.platform.expected_identity
    assert judged(stated, vm) == (Gap.START_WITHOUT_QUOTE,)
    for name in ("unique", "signer"):
        with pytest.raises(HistoryRefusedError, match="expects a confidential VM"):
            judged({**stated, name: said[name]}, vm)
    assert judged({**said, "quote": ""}, enclave) == (Gap.START_WITHOUT_QUOTE,)
    with pytest.raises(HistoryRefusedError, match="expects a confidential VM"):
        judged({**said, "quote": ""}, vm)
    with pytest.raises(IdentityRefusedError, match="UniqueID"):
        judged(stated, enclave)


def test_the_file_has_one_form(evidence: Evidence) -> None:
    assert read_evidence(write_evidence(evidence)) == evidence
    assert write_evidence(read_evidence(GOOD)) == GOOD
