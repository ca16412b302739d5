"""A second verifier, in Go, decides about evidence files as the first one does.

``KEYHOUSE_TESTS_EVIDENCE=10000`` tries so many damaged files.
"""

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from support.evidence import GOLDEN, Maker, history
from support.evidence_damage import FILES, HISTORIES
from support.evidence_fuzz import damaged
from support.process.tool import built_with_sumdb

from keyhouse.evidence.bundle import read_evidence, write_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.verify import verify

SOURCE = Path(__file__).parent / "evidence_go"
NUMBER = int(os.environ.get("KEYHOUSE_TESTS_EVIDENCE", "300"))
AT_ONCE = 1_000
ONLY_HERE = "a damaged cosignature of ML-DSA"

Verdicts = Callable[[Path, Iterable[bytes]], list[str]]


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker(ml_dsa=False)  # of which the standard library of Go has no public form


@pytest.fixture(scope="module", name="in_go")
def _in_go(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """What returns the verdicts of the Go program, by what is trusted in a folder."""
    folder = tmp_path_factory.mktemp("go")
    program = built_with_sumdb(SOURCE, folder)

    def verdicts(trusted: Path, files: Iterable[bytes]) -> list[str]:
        names = []
        for number, raw in enumerate(files):
            names.append(folder / f"{number}.json")
            names[-1].write_bytes(raw)
        pins = ("root.pem", "attestation.json", "witnesses.policy")
        words = [program, *(trusted / name for name in pins)]
        fingerprint = (trusted / "root-fingerprint").read_text().strip()
        given = "\n".join(map(str, names))
        done = subprocess.run(
            [*words, fingerprint], input=given, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.splitlines()

    return verdicts


def test_all_damaged_files_are_refused_at_the_same_step(in_go: Verdicts) -> None:
    good = (GOLDEN / "deployment.evidence.json").read_bytes()
    rules = [rule for rule in FILES if rule != ONLY_HERE]
    files = [good, *(FILES[rule][0](good) for rule in rules)]

    found = [said.partition(":")[0] for said in in_go(GOLDEN, files)]

    assert found[0] == "ok"
    wanted = dict(zip(rules, (str(FILES[rule][1]) for rule in rules), strict=True))
    assert dict(zip(rules, found[1:], strict=True)) == wanted


def test_histories_that_no_coordinator_has_are_refused(
    maker: Maker, in_go: Verdicts, tmp_path: Path
) -> None:
    maker.write_trusted(tmp_path)
    files = []
    for change in HISTORIES.values():
        said = history(maker)
        change(said)
        files.append(write_evidence(maker.evidence(said)))

    theirs = [said.partition(":")[0] for said in in_go(tmp_path, files)]

    assert theirs == [verdict(raw, maker.pins()) for raw in files]
    assert theirs.count("history") > len(files) - 4  # the rest is told as a gap


@pytest.mark.parametrize("seed", range(max(NUMBER // AT_ONCE, 1)))
def test_both_agree_on_random_damage(
    maker: Maker, in_go: Verdicts, tmp_path: Path, seed: int
) -> None:
    maker.write_trusted(tmp_path)
    files = list(damaged(maker, min(NUMBER, AT_ONCE), seed))

    theirs = in_go(tmp_path, files)
    ours = [verdict(raw, maker.pins()) for raw in files]

    different = [
        (number, mine, said)
        for number, (mine, said) in enumerate(zip(ours, theirs, strict=True))
        if mine != said.partition(":")[0]
    ]
    assert different == []
    assert {"ok", Step.FILE, Step.TREE, Step.HISTORY} <= set(ours)


def verdict(raw: bytes, pins: Pins) -> str:
    """Return the step that refuses ``raw``; ``ok``: none."""
    try:
        verify(read_evidence(raw), pins)
    except EvidenceRefusedError as refused:
        return refused.step
    return "ok"
