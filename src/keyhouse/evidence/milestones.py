"""Checkpoints of an evidence file: over its leaves, signed by its log, cosigned by witnesses."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from keyhouse.evidence.bundle import Evidence
from keyhouse.evidence.errors import EvidenceRefusedError, Step, refused_at
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.inclusion import nodes_above
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.tree import Frontier

LATE: Final = timedelta(minutes=10)
"""The largest accepted difference between clocks of coordinators, witnesses and verifiers."""

MOST_OF_A_SIZE: Final = 64
"""Checkpoints of one size in a file. Exports over years have a few; each costs a millisecond."""


class WholeTree:
    """The Merkle tree over all leaf hashes of a log, with every node, for the roots of all sizes.

    The nodes above the leaf hashes take as much memory as the hashes.
    """

    def __init__(self, hashes: Sequence[bytes]) -> None:
        row = list(hashes)
        self._rows = [row]
        while len(row) > 1:
            row = nodes_above(row)
            self._rows.append(row)

    @property
    def size(self) -> int:
        """The number of leaves of the whole tree."""
        return len(self._rows[0])

    def root(self, size: int) -> bytes:
        """Return the root over the first ``size`` leaves; ``size`` must not exceed the tree."""
        roots, first = [], 0
        for level in range(len(self._rows) - 1, -1, -1):
            if size >> level & 1:
                roots.append(self._rows[level][first >> level])
                first += 1 << level
        return Frontier(size, tuple(roots)).root


class Milestone(msgspec.Struct, frozen=True):
    """A verified checkpoint of an evidence file.

    ``time``: the median time of the cosigning witnesses; None without a quorum.
    """

    checkpoint: Checkpoint
    text: bytes
    witnesses: tuple[str, ...] = ()
    time: datetime | None = None


def milestones_of(
    evidence: Evidence, key: VerifierKey, tree: WholeTree, pins: Pins | None
) -> tuple[Milestone, ...]:
    """Return the checkpoints of ``evidence``, after a check against ``tree`` and the log's ``key``.

    The last checkpoint must have a quorum of the policy in ``pins``. Without a policy, no quorum is
    required. Raises ``EvidenceRefusedError``.
    """
    notes = [*_continued(evidence, key, tree)]
    if not notes or notes[-1][1].size != tree.size:
        raise EvidenceRefusedError(
            Step.TREE, "the last checkpoint does not cover all entries of the file"
        )
    milestones = [_witnessed(note, checkpoint, key, pins) for note, checkpoint in notes]
    _require_rising(milestones)
    _require_quorum(milestones[-1], pins)
    return tuple(milestones)


def _continued(
    evidence: Evidence, key: VerifierKey, tree: WholeTree
) -> Iterable[tuple[SignedNote, Checkpoint]]:
    """Yield each checkpoint of ``evidence``, after a check of signature, root and order of sizes.

    ``tree`` is the tree over all leaves, and ``key`` the key of the log.
    """
    size, equal = 0, 0
    for raw in evidence.checkpoints:
        with refused_at(Step.TREE):
            note = SignedNote.read(raw.encode())
            verified(note, [key])
            checkpoint = Checkpoint.read(note.text)
        if checkpoint.origin != evidence.origin or checkpoint.encode() != note.text:
            raise EvidenceRefusedError(
                Step.TREE, "a checkpoint belongs to another log, or is not in its canonical form"
            )
        if not size <= checkpoint.size <= tree.size or checkpoint.size == 0:
            raise EvidenceRefusedError(Step.TREE, "the sizes of the checkpoints are out of order")
        if tree.root(checkpoint.size) != checkpoint.root:
            raise EvidenceRefusedError(
                Step.TREE, f"the entries do not match the checkpoint of {checkpoint.size} entries"
            )
        equal = equal + 1 if checkpoint.size == size else 1
        if equal > MOST_OF_A_SIZE:
            raise EvidenceRefusedError(
                Step.TREE, f"more than {MOST_OF_A_SIZE} checkpoints are of {size} entries"
            )
        size = checkpoint.size
        yield note, checkpoint


def _require_rising(milestones: Sequence[Milestone]) -> None:
    """Refuse a milestone whose witnesses' time is before the time of the previous milestone.

    A difference up to ``LATE`` is accepted, because clocks of witnesses differ.
    """
    times = [(each.checkpoint.size, each.time) for each in milestones if each.time is not None]
    for (_, before), (size, time) in pairwise(times):
        if time < before - LATE:
            raise EvidenceRefusedError(
                Step.WITNESSES,
                f"witnesses cosigned the checkpoint of {size} entries at"
                f" {time:%Y-%m-%d %H:%M:%S} UTC, before the checkpoint of fewer entries",
            )


def _witnessed(
    note: SignedNote, checkpoint: Checkpoint, key: VerifierKey, pins: Pins | None
) -> Milestone:
    """Return ``checkpoint`` with the names of the witnesses that have cosigned ``note``.

    ``note`` is its signed text, and ``key`` the key of the log. ``pins`` has the policy of the
    verifier; without a policy no witness counts. A cosignature with a time more than ``LATE``
    after the verifier's clock does not count.
    """
    if pins is None or pins.policy is None:
        return Milestone(checkpoint, note.text)
    policy = pins.policy
    with refused_at(Step.WITNESSES):
        signed = verified(note, [key, *(each.key for each in policy.witnesses)])
    latest = (pins.now + LATE).timestamp()
    counted = {signer: time for signer, time in signed.items() if signer != key and time <= latest}
    times = sorted(counted.values())
    names = tuple(each.name for each in policy.witnesses if each.key in counted)
    if not times or not policy.holds(counted):
        return Milestone(checkpoint, note.text, names)
    with refused_at(Step.WITNESSES):
        return Milestone(checkpoint, note.text, names, date_of(times[(len(times) - 1) // 2]))


def _require_quorum(last: Milestone, pins: Pins | None) -> None:
    if pins is None:
        return
    if pins.policy is not None and last.time is None:
        raise EvidenceRefusedError(
            Step.WITNESSES,
            "the last checkpoint has no quorum of the policy's witnesses",
            hint="request a file with more cosignatures, and check the clock of this computer:"
            " later cosignatures do not count",
        )
    if pins.max_age is not None and (last.time is None or pins.now - last.time > pins.max_age):
        raise EvidenceRefusedError(
            Step.WITNESSES, f"the last witness time is older than the maximum age of {pins.max_age}"
        )


def date_of(seconds: int) -> datetime:
    """Return the time ``seconds`` after 1970. Raises ``LogInvalidError`` beyond all dates."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise LogInvalidError(f"the time {seconds} s since 1970 is not a date") from None
