"""A second verifier, in Go, decides about evidence files as the first one does.

``KEYHOUSE_TESTS_EVIDENCE=10000`` tries so many damaged files, and every kind of forgery.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Protocol

import pytest
from support.evidence import BEGUN, GOLDEN, Maker, history
from support.evidence_cases import write_cases
from support.evidence_corpus import CORPUS, NOW as CLOCK, pins_of
from support.evidence_damage import FILES, HISTORIES
from support.evidence_fuzz import damaged
from support.forger import KINDS, file_of, forged, honest
from support.process.tool import built_with_sumdb

from keyhouse.evidence.bundle import read_evidence, write_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.verify import examine

SOURCE = Path(__file__).parent / "evidence_go"
NUMBER = int(os.environ.get("KEYHOUSE_TESTS_EVIDENCE", "300"))
AT_ONCE = 1_000
ONLY_HERE = "a damaged cosignature of ML-DSA"

SEED = 20261123
NOW = BEGUN + timedelta(hours=2)


class Verdicts(Protocol):
    """Returns the verdicts about files, by what is trusted in a folder."""

    def __call__(self, trusted: Path, files: Iterable[bytes], now: datetime = NOW) -> list[str]: ...


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker(ml_dsa=False)  # of which the standard library of Go has no public form


@pytest.fixture(scope="module", name="in_go")
def _in_go(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Verdicts:
    """What returns the verdicts of the Go program, by what is trusted in a folder."""
    folder = tmp_path_factory.mktemp("files")

    def verdicts(trusted: Path, files: Iterable[bytes], now: datetime = NOW) -> list[str]:
        names = []
        for number, raw in enumerate(files):
            names.append(folder / f"{number}.json")
            names[-1].write_bytes(raw)
        return run(program, [(name, trusted) for name in names], now)

    return verdicts


@pytest.fixture(scope="module", name="program")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_with_sumdb(SOURCE, tmp_path_factory.mktemp("go"))


def run(program: Path, files: Iterable[tuple[Path, Path]], now: datetime = NOW) -> list[str]:
    """Return the verdicts about files, each with the folder of its auditor."""
    done = subprocess.run(
        [program, str(int(now.timestamp()))],
        input="\n".join(f"{file}\t{folder}" for file, folder in files),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.splitlines()


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

    theirs = in_go(tmp_path, files)

    ours = [verdict(raw, maker.pins()) for raw in files]
    assert different(ours, theirs) == []
    assert set(ours) == {"history"}


def test_recorded_forgeries_have_the_same_verdict(in_go: Verdicts) -> None:
    for folder in {each.folder for each in CORPUS}:
        wanted = {each: CORPUS[each] for each in CORPUS if each.folder == folder}

        theirs = in_go(folder, [each.raw for each in wanted], CLOCK)

        ours = [verdict(each.raw, pins_of(folder)) for each in wanted]
        assert different(ours, theirs) == []
        assert [each.partition(":")[0] for each in theirs] == [
            each.step for each in wanted.values()
        ]


def test_both_agree_on_forgeries_and_on_true_histories(
    maker: Maker, in_go: Verdicts, tmp_path: Path
) -> None:
    maker.write_trusted(tmp_path)
    chance = Random(SEED)  # noqa: S311 cases of a test
    some = chance.sample(list(KINDS), min(NUMBER // 3, len(KINDS)))
    drafts = {name: forged(maker, KINDS[name], chance) for name in some}
    drafts |= {f"true {number}": honest(maker, chance) for number in range(NUMBER // 12)}
    last = max(draft.pins.get("now", NOW) for draft in drafts.values())
    same = {name: draft for name, draft in drafts.items() if not draft.pins}
    later = {name: draft for name, draft in drafts.items() if draft.pins}

    for group, now in ((same, NOW), (later, last)):
        files = [file_of(maker, draft) for draft in group.values()]
        ours = [verdict(raw, maker.pins(now=now)) for raw in files]
        theirs = in_go(tmp_path, files, now)
        found = different(ours, theirs)
        assert [(list(group)[number], *said) for number, *said in found] == []


def test_both_agree_on_the_cases_for_other_verifiers(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    write_cases(folder, KINDS if NUMBER > AT_ONCE else {})
    expected = json.loads((folder / "expected.json").read_text())

    theirs = run(program, [(folder / name / "evidence.json", folder / name) for name in expected])

    ours = [
        f"gaps: {' '.join(each['gaps'])}" if "gaps" in each else each.get("refused", "ok")
        for each in expected.values()
    ]
    kinds = [each["kind"] for each in expected.values()]
    assert [(kinds[number], *said) for number, *said in different(ours, theirs)] == []


@pytest.mark.parametrize("seed", range(max(NUMBER // AT_ONCE, 1)))
def test_both_agree_on_random_damage(
    maker: Maker, in_go: Verdicts, tmp_path: Path, seed: int
) -> None:
    maker.write_trusted(tmp_path)
    files = list(damaged(maker, min(NUMBER, AT_ONCE), seed))

    theirs = in_go(tmp_path, files)
    ours = [verdict(raw, maker.pins()) for raw in files]

    assert different(ours, theirs) == []
    assert {"ok", Step.FILE, Step.TREE, Step.HISTORY} <= set(ours)


def verdict(raw: bytes, pins: Pins) -> str:
    """Return the step that refuses ``raw``, or the names of its gaps; ``ok``: neither."""
    try:
        found = examine(read_evidence(raw), pins)
    except EvidenceRefusedError as refused:
        return refused.step
    return f"gaps: {' '.join(sorted(found.gaps))}" if found.gaps else "ok"


def different(ours: list[str], theirs: list[str]) -> list[tuple[int, str, str]]:
    """Return the numbers of the files about which the two say different things, with both."""
    return [
        (number, mine, said)
        for number, (mine, said) in enumerate(zip(ours, theirs, strict=True))
        if said != mine and (mine.startswith("gaps") or said.partition(":")[0] != mine)
    ]
