"""Evidence files: a recorded one that is damaged, and histories that all who have keys sign.

Oracle: only ``EvidenceRefusedError`` comes out, with pins and without, and what is verified can be
shown. Whatever is damaged without the keys is refused, or has the same root and the same entries:
what is left out besides is told, as an approval that is missing.

A case says how a file is changed. The keys of histories are new in each process.
"""

import gzip
from random import Random
from typing import ClassVar, Final, Literal, get_args

import msgspec
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target
from support.evidence import GOLDEN, Maker, golden_pins, history
from support.evidence_fuzz import signed_again, with_other_bytes, with_other_value

from keyhouse.evidence.bundle import Evidence, read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError
from keyhouse.evidence.page import page_of
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.verify import verify

__all__ = ["EvidenceTarget"]

_How = Literal["bytes", "value", "many", "gzip", "signed"]
_MOST_VALUES: Final = 4


class _Case(msgspec.Struct, frozen=True, array_like=True):
    how: _How
    seed: int  # of the changes


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class EvidenceTarget(Target):
    """Evidence files, damaged or signed again by those who have the keys."""

    name: ClassVar[str] = "evidence"
    about: ClassVar[str] = "evidence files, damaged, and false histories that are signed"

    def __init__(self) -> None:
        self._good = (GOLDEN / "deployment.evidence.json").read_bytes()
        self._packed = gzip.compress(self._good, mtime=0)
        self._true = read_evidence(self._good)
        self._maker = Maker()
        self._said = history(self._maker)

    def draw(self, chance: Random) -> bytes:
        """Return how to change a file."""
        return _encode(_Case(chance.choice(get_args(_How)), chance.getrandbits(32)))

    def judge(self, case: bytes) -> str:
        """Change a file and verify it."""
        given = _decoder.decode(case)
        chance = Random(given.seed)  # noqa: S311 - repeatable, not secret
        if given.how == "signed":
            raw = signed_again(self._maker, self._said, chance)
            return self._judged(raw, self._maker.pins(), None) if raw else "cannot be signed"
        return self._judged(self._damaged(given.how, chance), golden_pins(), self._true)

    def _damaged(self, how: _How, chance: Random) -> bytes:
        if how == "gzip":
            return mutated(self._packed, chance)
        if how == "bytes":
            return with_other_bytes(self._good, chance)
        raw = self._good
        for _ in range(chance.randrange(2, _MOST_VALUES + 1) if how == "many" else 1):
            raw = with_other_value(raw, chance)
        return raw

    def _judged(self, raw: bytes, pins: Pins, true: Evidence | None) -> str:
        """Return what becomes of a file; ``true``: what it is made of, if nobody signed more."""
        try:
            evidence = read_evidence(raw)
        except EvidenceRefusedError as refused:
            return f"refused: {refused.step}"
        _outcome(evidence, None)
        found = _outcome(evidence, pins)
        if true is None or found.startswith("refused"):
            return found
        if (evidence.root, evidence.hashes) != (true.root, true.hashes):
            raise FindingError("other entries than those that were signed are proven")
        return found


def _outcome(evidence: Evidence, pins: Pins | None) -> str:
    try:
        verified = verify(evidence, pins)
    except EvidenceRefusedError as refused:
        return f"refused: {refused.step}"
    page_of(verified)
    return "proven, but for something" if verified.gaps else "proven"
