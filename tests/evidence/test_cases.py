"""The cases for other verifiers are complete, and say what this verifier says."""

import json
from itertools import islice
from pathlib import Path

from support.evidence_cases import write_cases
from support.evidence_corpus import CORPUS
from support.forger import KINDS

SOME = dict(islice(KINDS.items(), 0, None, 60))


def test_cases_are_written_with_pins_and_verdicts(tmp_path: Path) -> None:
    number = write_cases(tmp_path / "cases", SOME)

    expected = json.loads((tmp_path / "cases" / "expected.json").read_text())
    assert len(expected) == number > len(CORPUS) + len(SOME)
    forged = [each for each in expected.values() if each["kind"].startswith("forged")]
    assert len(forged) == len(SOME)
    assert all("refused" in each for each in forged)
    true = [each for each in expected.values() if each["kind"].startswith("true")]
    assert {each.get("refused", "proven") for each in true} == {"proven", "gaps"}
    for name in expected:
        assert {each.name for each in (tmp_path / "cases" / name).iterdir()} == {
            *("evidence.json", "now", "root-fingerprint"),
            *("root.pem", "attestation.json", "witnesses.policy"),
        }
