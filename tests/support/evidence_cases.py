"""Write evidence files for the author of another verifier: true, recorded and forged ones.

``PYTHONPATH=tests .venv/bin/python -m support.evidence_cases DIR`` makes a folder of cases and
``DIR/expected.json``. Each folder has ``evidence.json`` and the auditor's pins: the root's
fingerprint, the vendor's root certificate, the identity of the code, the witnesses' policy and the
time of the verification. The order of the cases is random, so their numbers reveal no verdict.

``expected.json`` has for each case the kind and the verdict of this verifier: ``proven``, or the
step that refuses the file. The step ``gaps`` has the names of the gaps; an auditor may allow them.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from shutil import copyfile
from typing import Final, NamedTuple

import msgspec

from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.verify import examine
from support.evidence import Maker
from support.evidence_corpus import CORPUS, pins_of
from support.forger import KINDS, Kind, file_of, forged, honest

__all__ = ["Case", "cases", "write_cases"]

_SEED: Final = 20261124
_TRUE_HISTORIES: Final = 60
_TRUSTED: Final = ("root-fingerprint", "root.pem", "attestation.json", "witnesses.policy")


class Case(NamedTuple):
    """An evidence file, the pins of its auditor, and the folder with the files of these pins."""

    kind: str
    raw: bytes
    pins: Pins
    trusted: Path


def cases(folder: Path, kinds: Mapping[str, Kind] = KINDS) -> Iterator[Case]:
    """Yield true, recorded and forged files; ``folder`` receives the pins of generated files."""
    for each in CORPUS:
        yield Case(f"recorded: {each.name}", each.raw, pins_of(each.folder), each.folder)
    maker = Maker()
    maker.write_trusted(folder)
    chance = Random(_SEED)  # noqa: S311 cases of a test
    for number in range(_TRUE_HISTORIES):
        raw = file_of(maker, honest(maker, chance))
        yield Case(f"true: {number}", raw, maker.pins(), folder)
    maker = Maker(ml_dsa=False)  # ML-DSA signs no text that is not a checkpoint
    without = folder / "without-ml-dsa"
    without.mkdir(exist_ok=True)
    maker.write_trusted(without)
    for name, kind in kinds.items():
        draft = forged(maker, kind, chance)
        pins = maker.pins(**draft.pins)
        yield Case(f"forged by {kind.holder}: {name}", file_of(maker, draft), pins, without)


def verdict(case: Case) -> dict[str, object]:
    """Return this verifier's verdict: the outcome, or the step that refuses the file."""
    try:
        found = examine(read_evidence(case.raw), case.pins)
    except EvidenceRefusedError as refused:
        return {"kind": case.kind, "refused": str(refused.step), "text": str(refused)}
    if found.gaps:
        return {"kind": case.kind, "refused": str(Step.GAPS), "gaps": sorted(found.gaps)}
    return {"kind": case.kind, "proven": True}


def write_cases(folder: Path, kinds: Mapping[str, Kind] = KINDS) -> int:
    """Write all cases below ``folder``; return their number."""
    trusted = folder / "trusted"
    trusted.mkdir(parents=True)
    every = list(cases(trusted, kinds))
    Random(_SEED).shuffle(every)  # noqa: S311 an order
    expected = {}
    for number, case in enumerate(every):
        place = folder / f"{number:04}"
        place.mkdir()
        (place / "evidence.json").write_bytes(case.raw)
        for name in _TRUSTED:
            copyfile(case.trusted / name, place / name)
        (place / "now").write_text(f"{case.pins.now.isoformat()}\n")
        expected[place.name] = verdict(case)
    (folder / "expected.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(expected)) + b"\n"
    )
    return len(every)


if __name__ == "__main__":
    _FOLDER = Path(sys.argv[1])
    sys.stdout.write(f"{_FOLDER}: {write_cases(_FOLDER)} cases, verdicts in expected.json\n")
