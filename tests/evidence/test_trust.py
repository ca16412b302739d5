"""Revocations and marble roots in evidence files: what an auditor reads, and what is refused."""

import hashlib
from random import Random

import pytest
from support.evidence import Maker, golden_pins
from support.forger import file_of
from support.forger.trust import END, PLATFORM, RECORDED, ROOTS, TRUST, TRUST_FORGERIES, UUID

from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.gaps import Claim, Gap
from keyhouse.evidence.report import Lane, rows_of, summary_of
from keyhouse.evidence.verify import Verified, examine
from keyhouse.transparency.leaf import hidden_in_leaf, name_in_leaf
from keyhouse.views.audit.facts import facts_of


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker(ml_dsa=False)


def proven(maker: Maker, name: str) -> Verified:
    """Return the verified history ``name``."""
    draft = TRUST[name](maker, Random(1))  # noqa: S311 the choices of a test
    return examine(read_evidence(file_of(maker, draft)), maker.pins())


def test_an_auditor_reads_who_revoked_which_workloads_and_when(maker: Maker) -> None:
    verified = proven(maker, "revocations of each kind")
    rows = [row for row in rows_of(verified) if Claim.REVOCATION in row.claims]
    long = hidden_in_leaf("w" * 600)
    assert long == name_in_leaf("w" * 600)
    assert [row.event for row in rows] == [
        f"guard revoked a workload of web, UUID {UUID[:23]}",
        "porter revoked all workloads of app so far",
        f"guard revoked all workloads of {long} so far",
        f"guard revoked the platform {PLATFORM[:23]}",
        f"guard revoked the platform {PLATFORM[:23]}",
    ]
    assert all(row.claimed and row.witnessed and row.lane is Lane.PEOPLE for row in rows)
    figures = {fact.figure for fact in facts_of(verified)}
    assert "5 revocations" in figures
    assert "marble roots" not in summary_of(verified)


def test_a_person_with_the_uuid_finds_its_revocation() -> None:
    text = "11111111-1111-4111-8111-111111111111"
    assert f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" == UUID


def test_an_auditor_reads_which_marble_roots_are_trusted(maker: Maker) -> None:
    verified = proven(maker, "changes of the marble roots")
    last = rows_of(verified)[-1]
    assert last.event == (
        f"workloads trust the marble root {'3' * 16}, and for some time {'1' * 16} until"
        f" 2030-03-17 17:46:39 UTC, {'2' * 16} until 2030-03-17 17:46:40 UTC"
    )
    assert (last.lane, last.claims) == (Lane.MANIFESTS, (Claim.ROOTS,))
    assert summary_of(verified)["marble roots"] == (
        f"{ROOTS[2]} in force, {ROOTS[0]} until 2030-03-17 17:46:39,"
        f" {ROOTS[1]} until 2030-03-17 17:46:40"
    )
    assert verified.entries[-1].after.roots == {ROOTS[2]: 0, ROOTS[0]: END - 1, ROOTS[1]: END}


def test_the_recorded_file_is_proven_without_a_gap() -> None:
    raw = (RECORDED / "deployment.evidence.json").read_bytes()
    verified = examine(read_evidence(raw), golden_pins(RECORDED))
    assert verified.gaps == {}
    assert verified.claims == {Claim.ROOTS: (2, 8), Claim.REVOCATION: (4, 5)}
    assert verified.entries[-1].after.roots == {ROOTS[1]: 0, ROOTS[0]: END}


def test_a_change_of_a_later_version_is_shown_and_is_a_gap(maker: Maker) -> None:
    verified = proven(maker, "changes of trust of unknown kinds")
    assert Gap.TRUST_UNKNOWN in verified.not_allowed
    texts = [row.event for row in rows_of(verified) if Gap.TRUST_UNKNOWN in row.gaps]
    assert texts == ["change of trust lifted by guard: type web 7", "change of trust rotated: "]


@pytest.mark.parametrize("name", TRUST_FORGERIES)
def test_a_false_change_of_trust_is_refused(maker: Maker, name: str) -> None:
    draft = TRUST_FORGERIES[name](maker, Random(1))  # noqa: S311 the choices of a test
    with pytest.raises(EvidenceRefusedError) as refused:
        examine(read_evidence(file_of(maker, draft)), maker.pins())
    assert refused.value.step is Step.HISTORY
