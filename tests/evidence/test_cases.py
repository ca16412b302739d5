"""The cases for other verifiers are complete, and say what this verifier says."""

import json
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from support.evidence import Maker
from support.evidence_cases import write_cases
from support.evidence_corpus import CORPUS
from support.forger import KINDS, RARE, RARE_FORGERIES

from keyhouse.evidence.errors import Step
from keyhouse.evidence.gaps import Gap

SOME = dict(islice(KINDS.items(), 0, None, 20))
PINS = {"root.pem", "attestation.json", "witnesses.policy", "root-fingerprint"}


@pytest.fixture(scope="module", name="written")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases") / "cases"
    number = write_cases(folder, SOME)
    assert number > len(CORPUS) + len(SOME) + len(RARE) + len(RARE_FORGERIES)
    return folder


@pytest.fixture(scope="module", name="expected")
def _expected(written: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((written / "expected.json").read_text())
    assert sorted(found) == sorted(each.name for each in written.iterdir() if each.is_dir())
    return found


def test_forgeries_are_refused_and_true_histories_have_gaps_alone(
    expected: dict[str, dict[str, object]],
) -> None:
    forged = [each for each in expected.values() if str(each["kind"]).startswith("forged")]
    assert len(forged) == len(SOME) + len(RARE_FORGERIES)
    assert all("refused" in each for each in forged)
    true = [each for each in expected.values() if str(each["kind"]).startswith("true")]
    assert {each.get("refused", "proven") for each in true} == {"proven", "gaps"}


def test_every_gap_and_every_step_occurs(expected: dict[str, dict[str, object]]) -> None:
    gaps = {gap for each in expected.values() for gap in list(each.get("gaps", []))}  # type: ignore[call-overload]
    assert gaps == {str(each) for each in Gap}
    assert {each.get("refused") for each in expected.values()} == {None, *map(str, Step)}


def test_a_case_has_the_files_of_its_auditor(
    written: Path, expected: dict[str, dict[str, object]]
) -> None:
    for name in expected:
        files = {each.name for each in (written / name).iterdir()}
        assert {"evidence.json", "now"} <= files
        assert files - {"evidence.json", "now"} <= PINS | {
            *("manifest-fingerprint", "accepted", "max-age")
        }
    used = {path.name for path in written.glob("*/*")}
    assert {"manifest-fingerprint", "accepted", "max-age"} <= used


def test_a_rare_true_history_has_its_gaps_and_no_others(
    expected: dict[str, dict[str, object]],
) -> None:
    maker, chance = Maker(ml_dsa=False), Random(1)  # noqa: S311 histories of a test
    wanted = {f"true: {name}": sorted(rare(maker, chance).gaps) for name, rare in RARE.items()}

    found = {each["kind"]: each.get("gaps", []) for each in expected.values()}

    assert {name: found[name] for name in wanted} == wanted
