"""Evidence files: forged by the holder of each key, damaged, or true.

Oracle: the only permitted exception is ``EvidenceRefusedError``, with and without pins. The audit
page can show each verified file. The verifier refuses each forgery (the kinds are in
``tests/support/forger``). It proves each true history, with exactly its gaps. A file that was
damaged without keys is refused, or has the same root and the same entries.

A case names the kind and a seed. The keys of histories are new in each process.
"""

import gzip
from random import Random
from typing import ClassVar, Final, Literal

import msgspec
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target
from support.evidence import GOLDEN, Maker, golden_pins, history
from support.evidence_fuzz import signed_again, with_other_bytes, with_other_value
from support.forger import KINDS, file_of, forged, honest

from keyhouse.evidence.bundle import Evidence, read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.verify import examine, verify
from keyhouse.views.audit.inputs import Given, GivenFile
from keyhouse.views.audit.page import page_of

__all__ = ["EvidenceTarget"]

_GIVEN = Given(GivenFile.of("FILE", "fuzzed", b""))

_How = Literal["bytes", "value", "many", "gzip", "signed", "forged", "honest"]
_MOST_VALUES: Final = 4
_SHARES: Final[dict[_How, int]] = {
    "forged": 14, "honest": 2, "signed": 1, "bytes": 1, "value": 1, "many": 1, "gzip": 1,
}  # fmt: skip


class _Case(msgspec.Struct, frozen=True, array_like=True):
    how: _How
    seed: int  # of the changes
    kind: str = ""  # of a forgery


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class EvidenceTarget(Target):
    """Evidence files: forged, damaged, signed again with all keys, or true."""

    name: ClassVar[str] = "evidence"
    about: ClassVar[str] = "evidence files, forged by the holder of each key, or damaged"

    def __init__(self) -> None:
        self._good = (GOLDEN / "deployment.evidence.json").read_bytes()
        self._packed = gzip.compress(self._good, mtime=0)
        self._true = read_evidence(self._good)
        self._maker = Maker()
        self._said = history(self._maker)
        self._forger = Maker(ml_dsa=False)  # ML-DSA signs no text that is not a checkpoint

    def draw(self, chance: Random) -> bytes:
        """Return a case: the way to make or change a file."""
        (how,) = chance.choices(list(_SHARES), list(_SHARES.values()))
        kind = chance.choice(list(KINDS)) if how == "forged" else ""
        return _encode(_Case(how, chance.getrandbits(32), kind))

    def judge(self, case: bytes) -> str:
        """Make or change a file and verify it."""
        given = _decoder.decode(case)
        chance = Random(given.seed)  # noqa: S311 - repeatable, not secret
        if given.how == "forged":
            return self._forged(given.kind, chance)
        if given.how == "honest":
            return self._honest(chance)
        if given.how == "signed":
            raw = signed_again(self._maker, self._said, chance)
            return self._judged(raw, self._maker.pins(), None) if raw else "cannot be signed"
        return self._judged(self._damaged(given.how, chance), golden_pins(), self._true)

    def _forged(self, name: str, chance: Random) -> str:
        """Forge a file. The verifier must refuse the file."""
        kind = KINDS[name]
        draft = forged(self._forger, kind, chance)
        pins = self._forger.pins(**draft.pins)
        try:
            verify(read_evidence(file_of(self._forger, draft)), pins)
        except EvidenceRefusedError as refused:
            return f"forged by {kind.holder}, refused: {refused.step}"
        raise FindingError(f"a forgery is accepted: {name}")

    def _honest(self, chance: Random) -> str:
        """Make a true file. The verifier must prove the file, with exactly its gaps."""
        draft = honest(self._forger, chance)
        try:
            found = examine(read_evidence(file_of(self._forger, draft)), self._forger.pins())
        except EvidenceRefusedError as refused:
            raise FindingError(f"a true history is refused: {refused}") from None
        if found.gaps.keys() != draft.gaps:
            raise FindingError(f"a true history has the gaps {sorted(found.gaps)}")
        page_of(found, _GIVEN)
        return f"honest: {found.outcome}"

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
        """Return the outcome of a file.

        ``true``: the evidence before the damage; None for a file with new signatures.
        """
        try:
            evidence = read_evidence(raw)
        except EvidenceRefusedError as refused:
            return f"refused: {refused.step}"
        _outcome(evidence, None)
        found = _outcome(evidence, pins)
        if true is None or found.startswith("refused"):
            return found
        if (evidence.root, evidence.hashes) != (true.root, true.hashes):
            raise FindingError("the verifier proved entries without signatures")
        return found


def _outcome(evidence: Evidence, pins: Pins | None) -> str:
    try:
        verified = examine(evidence, pins)
    except EvidenceRefusedError as refused:
        return f"refused: {refused.step}"
    page_of(verified, _GIVEN)
    return f"damaged: {verified.outcome}"
