"""Checkpoints of an evidence file: of its entries, by its log, and cosigned by witnesses."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from keyhouse.evidence.bundle import Evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step, refused_at
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.checkpoint import Checkpoint
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tree import Frontier, nodes_above


class WholeTree:
    """Holds every node above the hashes of all leaves: twice the memory of these."""

    def __init__(self, hashes: Sequence[bytes]) -> None:
        row = list(hashes)
        self._rows = [row]
        while len(row) > 1:
            row = nodes_above(row)
            self._rows.append(row)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return len(self._rows[0])

    def root(self, size: int) -> bytes:
        """Return the root of the first ``size`` leaves, of which there are so many."""
        roots, first = [], 0
        for level in range(len(self._rows) - 1, -1, -1):
            if size >> level & 1:
                roots.append(self._rows[level][first >> level])
                first += 1 << level
        return Frontier(size, tuple(roots)).root


class Milestone(msgspec.Struct, frozen=True):
    """A checkpoint of the file. ``time``: when enough witnesses cosigned it; None: not enough."""

    checkpoint: Checkpoint
    text: bytes
    witnesses: tuple[str, ...] = ()
    time: datetime | None = None


def milestones_of(
    evidence: Evidence, key: VerifierKey, tree: WholeTree, pins: Pins | None
) -> tuple[Milestone, ...]:
    """Return the checkpoints, which are of ``tree`` and signed by ``key``; the last is witnessed.

    Raises ``EvidenceRefusedError``.
    """
    size, found = 0, []
    notes = []
    for raw in evidence.checkpoints:
        with refused_at(Step.TREE):
            note = SignedNote.read(raw.encode())
            verified(note, [key])
            checkpoint = Checkpoint.read(note.text)
        if checkpoint.origin != evidence.origin or checkpoint.encode() != note.text:
            raise EvidenceRefusedError(Step.TREE, "a checkpoint is of another log, or says more")
        if not size <= checkpoint.size <= tree.size or checkpoint.size == 0:
            raise EvidenceRefusedError(Step.TREE, "the sizes of the checkpoints are out of order")
        if tree.root(checkpoint.size) != checkpoint.root:
            raise EvidenceRefusedError(
                Step.TREE, f"the entries are not those of the checkpoint of {checkpoint.size}"
            )
        size = checkpoint.size
        notes.append((note, checkpoint))
    if not notes or size != tree.size:
        raise EvidenceRefusedError(Step.TREE, "the last checkpoint is not over all entries")
    found = [_witnessed(note, checkpoint, key, pins) for note, checkpoint in notes]
    _require_quorum(found[-1], pins)
    return tuple(found)


def _witnessed(
    note: SignedNote, checkpoint: Checkpoint, key: VerifierKey, pins: Pins | None
) -> Milestone:
    """Return the milestone with those of the policy's witnesses that have cosigned it."""
    if pins is None or pins.policy is None:
        return Milestone(checkpoint, note.text)
    policy = pins.policy
    with refused_at(Step.WITNESSES):
        signed = verified(note, [key, *(each.key for each in policy.witnesses)])
    times = sorted(time for signer, time in signed.items() if signer != key)
    names = tuple(each.name for each in policy.witnesses if each.key in signed)
    if not times or not policy.holds(signed):
        return Milestone(checkpoint, note.text, names)
    with refused_at(Step.WITNESSES):
        return Milestone(checkpoint, note.text, names, date_of(times[(len(times) - 1) // 2]))


def _require_quorum(last: Milestone, pins: Pins | None) -> None:
    if pins is None:
        return
    if pins.policy is not None and last.time is None:
        raise EvidenceRefusedError(
            Step.WITNESSES, "the last checkpoint has no quorum of the policy's witnesses"
        )
    if pins.max_age is not None and (last.time is None or pins.now - last.time > pins.max_age):
        raise EvidenceRefusedError(
            Step.WITNESSES, "the last witness time is older than the maximum age"
        )


def date_of(seconds: int) -> datetime:
    """Return the time ``seconds`` after 1970. Raises ``LogInvalidError`` if it is not a date."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise LogInvalidError("the time of a cosignature is not a date") from None
