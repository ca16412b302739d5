"""Verifies an evidence file, with no network, against what an auditor trusts from elsewhere.

1. The file is in its one form, and each object has the hash that it is named by (``bundle``).
2. It is of the deployment that is pinned: by its root, or by its first manifest.
3. The root has signed the log's key, and the intermediate; the origin is the key's name.
4. The tree over all entries has the roots that all checkpoints say, to the last entry: nothing is
   left out, so no proofs are needed. The log's key has signed each checkpoint.
5. Witnesses, enough for the auditor's policy, have cosigned the last checkpoint. Each entry gets
   the time of the first checkpoint over it that enough have cosigned: half of them say an earlier
   one, half a later one.
6. Hardware vouches for the last checkpoint and the root, at that time and with the collateral in
   the file, and the code is accepted.
7. The leaves are one history (``history``); the quotes of starts are of accepted code.

The first step that fails refuses the file. What cannot be checked is in the result, with the
entries that it is about.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec
from cryptography import x509

from keyhouse.attestation import INTEL_SGX_ROOT, Verdict
from keyhouse.authority import is_signed_by_root
from keyhouse.authority.signing import LOG_KEY_CONTEXT
from keyhouse.base.errors import RefusedError
from keyhouse.base.progress import advance, begin
from keyhouse.evidence.bundle import Evidence, Hidden
from keyhouse.evidence.errors import EvidenceRefusedError, HistoryRefusedError, Step, refused_at
from keyhouse.evidence.hardware import vouched_head, vouched_start
from keyhouse.evidence.history import Gap, History, LogIdentity, LogView, follow, follow_hidden
from keyhouse.evidence.milestones import Milestone, WholeTree, milestones_of
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ED25519, VerifierKey
from keyhouse.transparency.leaf import Leaf, ManifestSet, Started, object_name, read_leaf

NO_WITNESSES: Final = "that nobody was shown another history: no witness vouches for this one"

_LATE: Final = 600  # seconds
_TOLD: Final = 1000  # entries between two looks at how far it is


class Judged(msgspec.Struct, frozen=True, gc=False):
    """An entry after its step. ``leaf`` is None if it is hidden; ``time``: of the witnesses."""

    leaf: Leaf | None
    time: datetime | None
    gaps: tuple[str, ...]
    after: History


class Verified(msgspec.Struct, frozen=True):
    """What an evidence file proves, and what it does not.

    ``pins`` is None if nothing was pinned: then signatures and history agree with each other, and
    that is all. ``gaps`` have the numbers of their entries; those without are about the whole.
    """

    evidence: Evidence
    pins: Pins | None
    milestones: tuple[Milestone, ...]
    head: Verdict | None
    entries: tuple[Judged, ...]
    gaps: dict[str, tuple[int, ...]]

    @property
    def is_simulated(self) -> bool:
        """Whether its quotes were verified under another root than Intel's."""
        return self.pins is not None and self.pins.vendor_root != INTEL_SGX_ROOT

    @property
    def witnessed(self) -> datetime | None:
        """When enough witnesses cosigned the last checkpoint, if they did."""
        return self.milestones[-1].time


def verify(evidence: Evidence, pins: Pins | None) -> Verified:
    """Return what ``evidence`` proves. Raises ``EvidenceRefusedError`` with the step that fails."""
    gaps = _deployment(evidence, pins)
    key = _log_key(evidence)
    logs = () if pins is None or pins.policy is None else pins.policy.logs
    if logs and key not in logs:
        raise EvidenceRefusedError(Step.LOG_KEY, "the policy names other logs")
    begin("building the tree", 1)
    tree = WholeTree(evidence.hashes)
    milestones = milestones_of(evidence, key, tree, pins)
    head = None if pins is None else vouched_head(evidence, pins, milestones[-1])
    if pins is not None and pins.policy is None:
        gaps.append(NO_WITNESSES)
    entries = _history(evidence, _followed(evidence, key, milestones, tree, pins))
    found: dict[str, list[int]] = {gap: [] for gap in gaps}
    for index, each in enumerate(entries):
        for gap in each.gaps:
            found.setdefault(gap, []).append(index)
    if not entries[-1].after.intermediate:
        found["no entry says which intermediate certificate is in force"] = []
    told = {gap: tuple(numbers) for gap, numbers in found.items()}
    return Verified(evidence, pins, milestones, head, entries, told)


def require_no_gaps(verified: Verified) -> None:
    """Raise ``EvidenceRefusedError`` if anything in the file could not be checked."""
    for gap, entries in verified.gaps.items():
        where = f" (first at entry {entries[0]})" if entries else ""
        raise EvidenceRefusedError(Step.HISTORY, f"{gap}{where}")


def _deployment(evidence: Evidence, pins: Pins | None) -> list[str]:
    """Step 2. Return the gaps of what is pinned."""
    if pins is None:
        return ["which deployment this is, whether hardware ran it, and that nobody forked the log"]
    if not pins.root and not pins.manifest:
        raise EvidenceRefusedError(Step.DEPLOYMENT, "neither its root nor its manifest is pinned")
    if pins.root and object_name(evidence.root) != pins.root:
        raise EvidenceRefusedError(Step.DEPLOYMENT, "it is of another root certificate")
    if pins.manifest:
        _require_first(evidence, pins.manifest)
    if pins.root:
        return []
    return ["that no other deployment began with the same manifest: the root is not pinned"]


def _require_first(evidence: Evidence, manifest: str) -> None:
    first = evidence.entries[1] if len(evidence.entries) > 1 else b""
    with refused_at(Step.DEPLOYMENT):
        leaf = None if isinstance(first, Hidden) else read_leaf(first)
    if not isinstance(leaf, ManifestSet) or leaf.manifest != manifest:
        raise EvidenceRefusedError(Step.DEPLOYMENT, "its first manifest is not the one pinned")


def _log_key(evidence: Evidence) -> VerifierKey:
    """Step 3."""
    with refused_at(Step.LOG_KEY):
        key = VerifierKey.read(evidence.log.key)
    if key.kind != ED25519 or key.name != evidence.origin:
        raise EvidenceRefusedError(Step.LOG_KEY, "the log's key is not Ed25519 under its origin")
    message = LOG_KEY_CONTEXT + evidence.log.key.encode()
    try:
        signed = is_signed_by_root(evidence.root, evidence.log.signature, message)
    except Exception:  # noqa: BLE001 parsers raise many things on invalid bytes
        signed = False
    if not signed:
        raise EvidenceRefusedError(Step.LOG_KEY, "the root has not signed the log's key")
    try:
        root = x509.load_der_x509_certificate(evidence.root)
        child = x509.load_der_x509_certificate(evidence.intermediate)
        root.verify_directly_issued_by(root)
        child.verify_directly_issued_by(root)
        is_ca = child.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception:  # noqa: BLE001 as above
        is_ca = False
    if not is_ca:
        raise EvidenceRefusedError(
            Step.LOG_KEY, "the intermediate certificate is not a CA that the root has issued"
        )
    return key


def _history(evidence: Evidence, followed: Iterator[Judged]) -> tuple[Judged, ...]:
    """Step 7."""
    begin("following the history", len(evidence.entries))
    found: list[Judged] = []
    try:
        for judged in followed:
            found.append(judged)
            if len(found) % _TOLD == 0:
                advance(_TOLD)
    except (LogInvalidError, HistoryRefusedError, RefusedError) as error:
        problem = f"entry {len(found)}: {error.message}"
        raise EvidenceRefusedError(Step.HISTORY, problem, hint=error.hint) from None
    last = found[-1].after.intermediate
    if last and last != object_name(evidence.intermediate):
        raise EvidenceRefusedError(
            Step.HISTORY, "the intermediate certificate is not the one in force at the end"
        )
    return tuple(found)


def _followed(
    evidence: Evidence,
    key: VerifierKey,
    milestones: tuple[Milestone, ...],
    tree: WholeTree,
    pins: Pins | None,
) -> Iterator[Judged]:
    """Yield each entry with its step, and the time of the first quorum over it."""
    log = LogView(evidence.objects.get, tree.root)
    history = History(LogIdentity(evidence.origin, object_name(evidence.root), str(key)))
    covering = iter([each for each in milestones if each.time is not None] or milestones[-1:])
    current = next(covering)
    for index, entry in enumerate(evidence.entries):
        while current.checkpoint.size <= index:
            current = next(covering)
        if isinstance(entry, Hidden):
            history, gaps = follow_hidden(history)
            yield Judged(None, current.time, gaps, history)
            continue
        leaf = read_leaf(entry)
        history, gaps = follow(history, leaf, log)
        if isinstance(leaf, Started):
            before = index, tree.root(index)
            objects, root = evidence.objects.get, evidence.root
            gaps += vouched_start(objects, root, pins, leaf, before, current.time)
        yield Judged(leaf, current.time, _timed(leaf, current.time, gaps), history)


def _timed(leaf: Leaf, witnessed: datetime | None, gaps: tuple[Gap, ...]) -> tuple[str, ...]:
    """Return ``gaps``, and one more if the coordinator claims a time after the witnesses'."""
    if witnessed is None or leaf.time <= (witnessed.timestamp() + _LATE) * 1_000_000:
        return gaps
    return (*gaps, "the claimed time is more than 10 minutes after the witnesses'")
