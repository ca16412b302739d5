"""Every kind of forgery is refused, and no true history is: one of each, with random details.

``scripts/fuzz evidence`` tries as many as it is told.
"""

from random import Random

import pytest
from support.evidence import Maker
from support.forger import KINDS, file_of, forged, honest

from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.verify import Outcome, examine, verify

GROUPS = sorted({name.partition(":")[0] for name in KINDS})
SEED = 20261123


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker(ml_dsa=False)


@pytest.mark.parametrize("group", GROUPS)
def test_no_forgery_is_accepted(maker: Maker, group: str) -> None:
    chance, accepted = Random(SEED), []  # noqa: S311 cases of a test
    for name, kind in KINDS.items():
        if name.partition(":")[0] != group:
            continue
        draft = forged(maker, kind, chance)
        raw = file_of(maker, draft)
        try:
            verify(read_evidence(raw), maker.pins(**draft.pins))
        except EvidenceRefusedError:
            continue
        accepted.append(name)

    assert accepted == []


def test_there_are_forgeries_by_the_holder_of_each_key() -> None:
    holders = {kind.holder for kind in KINDS.values()}

    assert holders == {"coordinator", "user", "witness", "machine", "nobody"}
    assert len(KINDS) >= 250


@pytest.mark.parametrize("seed", range(8))
def test_a_true_history_has_its_gaps_and_no_others(maker: Maker, seed: int) -> None:
    chance, outcomes = Random(seed), set()  # noqa: S311 cases of a test
    for _ in range(12):
        draft = honest(maker, chance)
        evidence = read_evidence(file_of(maker, draft))

        found = examine(evidence, maker.pins())

        assert found.gaps.keys() == draft.gaps
        outcomes.add(verify(evidence, maker.pins(allowed=frozenset(Gap))).outcome)
    assert outcomes <= {Outcome.PROVEN, Outcome.EXCEPT_ALLOWED}
