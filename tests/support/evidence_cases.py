"""Write evidence files for the author of another verifier: true, recorded and forged files.

``PYTHONPATH=tests .venv/bin/python -m support.evidence_cases DIR`` makes a folder for each case,
and ``DIR/expected.json``. The folder has ``evidence.json`` and the files of the auditor
(``forger.trusted``). The order of the cases is random, so their numbers reveal no verdict.

``expected.json`` states the kind and the verdict of each case. The verdict is ``proven``, or the
step that refuses the file. For the step ``gaps`` it lists the gaps; an auditor may permit gaps.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import msgspec

from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.verify import examine
from support.evidence import Maker
from support.evidence_corpus import CORPUS, NOW
from support.forger import KINDS, RARE, RARE_FORGERIES, Draft, Kind, file_of, forged, honest
from support.forger.trusted import read_pins

__all__ = ["Case", "cases", "verdict", "write_cases"]

_SEED: Final = 20261124
_TRUE_HISTORIES: Final = 60
_TRUSTED: Final = ("root-fingerprint", "root.pem", "attestation.json", "witnesses.policy")


class Case(NamedTuple):
    """An evidence file, and the files of its auditor by name."""

    kind: str
    raw: bytes
    files: Mapping[str, bytes]

    @property
    def pins(self) -> Pins | None:
        """The pins in the auditor's files, or None if the files pin nothing."""
        return read_pins(self.files)


def cases(kinds: Mapping[str, Kind] = KINDS) -> Iterator[Case]:
    """Yield true, recorded and forged files."""
    for each in CORPUS:
        files = {name: (each.folder / name).read_bytes() for name in _TRUSTED}
        now = f"{NOW.isoformat()}\n".encode()
        yield Case(f"recorded: {each.name}", each.raw, {**files, "now": now})
    maker = Maker()
    chance = Random(_SEED)  # noqa: S311 cases of a test
    for number in range(_TRUE_HISTORIES):
        yield _case(f"true: {number}", maker, honest(maker, chance))
    maker = Maker(ml_dsa=False)  # ML-DSA signs only checkpoints, so it cannot sign some forgeries
    for name, rare in RARE.items():
        yield _case(f"true: {name}", maker, rare(maker, chance))
    for name, kind in kinds.items():
        yield _case(f"forged by {kind.holder}: {name}", maker, forged(maker, kind, chance))
    for name, rare in RARE_FORGERIES.items():
        yield _case(f"forged: {name}", maker, rare(maker, chance))


def _case(kind: str, maker: Maker, draft: Draft) -> Case:
    now = maker.pins(**draft.pins).now
    given = {**maker.trusted, "now": f"{now.isoformat()}\n".encode(), **draft.trusted}
    files = {name: content for name, content in given.items() if content is not None}
    return Case(kind, file_of(maker, draft), files)


def verdict(case: Case) -> dict[str, object]:
    """Return the verdict of this verifier: proven, or the step that refuses the file."""
    try:
        found = examine(read_evidence(case.raw), case.pins)
    except EvidenceRefusedError as refused:
        return {"kind": case.kind, "refused": str(refused.step), "text": str(refused)}
    if found.gaps:
        return {"kind": case.kind, "refused": str(Step.GAPS), "gaps": sorted(found.gaps)}
    return {"kind": case.kind, "proven": True}


def write_cases(folder: Path, kinds: Mapping[str, Kind] = KINDS) -> int:
    """Write all cases below ``folder``; return their number."""
    folder.mkdir(parents=True)
    every = list(cases(kinds))
    Random(_SEED).shuffle(every)  # noqa: S311 not a secret
    expected = {}
    for number, case in enumerate(every):
        place = folder / f"{number:04}"
        for name, content in (("evidence.json", case.raw), *case.files.items()):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        expected[place.name] = verdict(case)
    text = msgspec.json.format(msgspec.json.encode(expected))
    (folder / "expected.json").write_bytes(text + b"\n")
    return len(every)


if __name__ == "__main__":
    _FOLDER = Path(sys.argv[1])
    sys.stdout.write(f"{_FOLDER}: {write_cases(_FOLDER)} cases, verdicts in expected.json\n")
