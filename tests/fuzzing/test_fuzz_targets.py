"""Each target of the campaign for a moment, and every case that was ever worth keeping."""

from pathlib import Path
from random import Random

import pytest
from fuzz.findings import CORPUS, read_finding
from fuzz.target import Target
from fuzz.targets.table import TARGETS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # odd names in certificates

KEPT = sorted(CORPUS.glob("*.json"))
FEW = {"kills": 2, "journal": 30, "replicas": 1, "flushes": 1}
# A moment or a seed, which means something else each time.
ALL_OR_NOTHING = {"kills", "replicas", "flushes"}


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", TARGETS.values(), ids=TARGETS.keys())
def test_target_runs_and_its_cases_are_refused_and_accepted(kind: type[Target]) -> None:
    target, chance = kind(), Random(1)  # noqa: S311 - cases, not keys
    try:
        outcomes = {target.judge(target.draw(chance)) for _ in range(FEW.get(kind.name, 80))}
    finally:
        target.close()
    assert kind.name in ALL_OR_NOTHING or len(outcomes) > 2


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_case_that_was_kept_is_judged_without_a_finding(path: Path) -> None:
    kept = read_finding(path)
    target = TARGETS[kept.target]()
    try:
        assert target.judge(kept.case)
    finally:
        target.close()


def test_there_is_a_kept_case_for_every_target_whose_cases_keep_their_meaning() -> None:
    assert {read_finding(path).target for path in KEPT} == TARGETS.keys() - ALL_OR_NOTHING
