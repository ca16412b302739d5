"""Verify an evidence file, without network, against the auditor's pins.

1. The file has the canonical form, and each object has the hash in its name (``bundle``).
2. The file belongs to the pinned deployment, by its root or by its first manifest.
3. The root has signed the log's key and the intermediate. The origin is the name of the key.
4. The tree over all leaves has the roots of all checkpoints, up to the last leaf. No leaf is
   missing, so no proofs are needed. The log's key has signed each checkpoint.
5. Enough witnesses for the auditor's policy have cosigned the last checkpoint. The time of a
   checkpoint with a quorum is the median of its witnesses' times. Each leaf gets the time of the
   first such checkpoint over the leaf.
6. Hardware vouches for the last checkpoint and the root, at that time and with the collateral in
   the file. The code is accepted.
7. The leaves form one history (``history``). The quotes of starts have accepted code.
8. The auditor allows every gap. A gap is a missing check, with its leaves.

The first failed step refuses the file. If the log replaces earlier logs and the auditor has their
evidence, those files are verified first, under the same pins (``continuation``).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

import msgspec
from cryptography import x509
from msgspec.structs import replace

from keyhouse.attestation import INTEL_SGX_ROOT, Verdict
from keyhouse.authority.keys import LOG_KEY_CONTEXT, is_signed_by_root
from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import quoted
from keyhouse.base.progress import advance, begin
from keyhouse.evidence.bundle import Evidence, Hidden
from keyhouse.evidence.continuation import LogEnd, continue_from
from keyhouse.evidence.errors import EvidenceRefusedError, HistoryRefusedError, Step, refused_at
from keyhouse.evidence.gaps import Claim, Gap
from keyhouse.evidence.hardware import vouched_head, vouched_start
from keyhouse.evidence.history import (
    History,
    LogIdentity,
    LogReferences,
    follow,
    follow_hidden,
    require_whole,
)
from keyhouse.evidence.milestones import LATE, Milestone, WholeTree, milestones_of
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ED25519, VerifierKey
from keyhouse.transparency.leaf import (
    Leaf,
    LogBegunLeaf,
    ManifestSetLeaf,
    RecoveredLeaf,
    SecretsUploadedLeaf,
    StartedLeaf,
    TrustChange,
    TrustLeaf,
    object_name,
    read_leaf,
)

# Entries between two reports of the progress, chosen: some milliseconds of work.
_PROGRESS_STEP: Final = 1000


class Judged(msgspec.Struct, frozen=True, gc=False):
    """A leaf with the result of its check: its gaps, and the history ``after`` the leaf.

    ``leaf`` is None for a hidden leaf. ``time`` is the witnesses' time; None without a quorum.
    ``notes`` are for people and cause no refusal.
    """

    leaf: Leaf | None
    time: datetime | None
    gaps: tuple[Gap, ...]
    after: History
    notes: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The statements in the leaf that only the coordinator claims."""
        match self.leaf:
            case SecretsUploadedLeaf():
                return (Claim.UPLOAD,)
            case RecoveredLeaf():
                return (Claim.RECOVERY,)
            case TrustLeaf(what=TrustChange.REVOKED):
                return (Claim.REVOCATION,)
            case TrustLeaf(what=TrustChange.ROOTS):
                return (Claim.ROOTS,)
            case _:
                return ()


class Outcome(StrEnum):
    """The result of a verification without a failed step. Only gaps may refuse the file.

    Values are words for programs.
    """

    PROVEN = "proven"  # no gap
    EXCEPT_ALLOWED = "proven-except-allowed-gaps"
    GAPS = "gaps-not-allowed"
    NOT_VERIFIED = "not-verified"  # nothing was pinned


class Verified(msgspec.Struct, frozen=True):
    """The result of a verification: the proven history of an evidence file, and its gaps.

    ``pins`` is None without pins: then only the agreement of signatures and history was verified.
    Each gap and claim has the numbers of its leaves. A gap without numbers is about the whole file.
    ``before`` is the result for the replaced log, if its file was given.
    """

    evidence: Evidence
    pins: Pins | None
    milestones: tuple[Milestone, ...]
    head: Verdict | None
    entries: tuple[Judged, ...]
    gaps: dict[Gap, tuple[int, ...]]
    claims: dict[Claim, tuple[int, ...]]
    before: "Verified | None" = None

    @property
    def logs(self) -> "tuple[Verified, ...]":
        """This log, then the logs before it, the newest first."""
        return (self, *(() if self.before is None else self.before.logs))

    @property
    def every_gap(self) -> tuple[Gap, ...]:
        """The gaps of this log and of the earlier logs, without repetition."""
        return tuple(dict.fromkeys(gap for log in self.logs for gap in log.gaps))

    @property
    def not_allowed(self) -> tuple[Gap, ...]:
        """The gaps of all logs that the auditor does not allow. Each of them refuses the file."""
        allowed = frozenset() if self.pins is None else self.pins.allowed
        return tuple(gap for gap in self.every_gap if gap not in allowed)

    @property
    def outcome(self) -> Outcome:
        """The result in one word. ``PROVEN`` and ``EXCEPT_ALLOWED`` are exit code 0."""
        if self.pins is None:
            return Outcome.NOT_VERIFIED
        if self.not_allowed:
            return Outcome.GAPS
        return Outcome.EXCEPT_ALLOWED if self.every_gap else Outcome.PROVEN

    @property
    def is_simulated(self) -> bool:
        """Whether the quotes were verified under a root other than Intel's."""
        return self.pins is not None and self.pins.vendor_root != INTEL_SGX_ROOT

    @property
    def witnessed(self) -> datetime | None:
        """The witnesses' time of the last checkpoint, or None without a quorum."""
        return self.milestones[-1].time


def verify(evidence: Evidence, pins: Pins, *before: Evidence) -> Verified:
    """Verify ``evidence`` and return the result. A gap outside ``pins.allowed`` is refused.

    ``before`` is the evidence of the replaced logs, the oldest first. Raises
    ``EvidenceRefusedError`` with the failed step.
    """
    verified = examine(evidence, pins, *before)
    require_allowed(verified)
    return verified


def require_allowed(verified: Verified) -> None:
    """Raise ``EvidenceRefusedError`` for a gap that is not allowed, and for missing pins."""
    refused = verified.not_allowed
    if not refused:
        return
    named = "; ".join(f"{gap} ({gap.text}{_where(verified, gap)})" for gap in refused)
    words = " ".join(f"--allow {gap}" for gap in refused)
    raise EvidenceRefusedError(
        Step.GAPS,
        f"the file does not prove everything: {named}",
        hint=f"request a file without gaps, or accept each gap: {words}",
    )


def _where(verified: Verified, gap: Gap) -> str:
    log = next(each for each in verified.logs if gap in each.gaps)
    entries = log.gaps[gap]
    of = "" if log is verified else f" of {log.evidence.origin}"
    return f"; first at entry {entries[0]}{of}" if entries else ""


def examine(evidence: Evidence, pins: Pins | None, *before: Evidence) -> Verified:
    """Return the result for ``evidence`` with all gaps, allowed or not.

    ``pins`` None: verify only that signatures and history agree. ``before`` is the evidence of the
    replaced logs, the oldest first. Raises ``EvidenceRefusedError`` with the failed step. The
    result is not a proof: use ``verify``, or ``require_allowed`` afterwards.
    """
    old = _examined_before(before, pins) if before else None
    gaps = _deployment(evidence, pins, old)
    key = _log_key(evidence)
    logs = () if pins is None or pins.policy is None else pins.policy.logs
    if logs and key not in logs:
        raise EvidenceRefusedError(
            Step.LOG_KEY,
            f"no log line of the policy has the key of the log {quoted(evidence.origin)}",
            hint="compare the key in the policy with keyhouse log key HOST",
        )
    begin("building the tree", 1)
    tree = WholeTree(evidence.hashes)
    milestones = milestones_of(evidence, key, tree, pins)
    head = None if pins is None else vouched_head(evidence, pins, milestones[-1])
    if pins is not None and pins.policy is None:
        gaps.append(Gap.NO_WITNESSES)
    entries = _history(evidence, _follow_entries(evidence, key, milestones, tree, pins, old))
    if not entries[-1].after.intermediate:
        gaps.append(Gap.INTERMEDIATE_UNKNOWN)
    numbered_gaps = dict.fromkeys(gaps, ()) | _numbered(each.gaps for each in entries)
    claims = _numbered(each.claims for each in entries)
    return Verified(evidence, pins, milestones, head, entries, numbered_gaps, claims, old)


def _examined_before(before: tuple[Evidence, ...], pins: Pins | None) -> Verified:
    """Return the result for the last file in ``before``, the log before the newest log.

    ``before`` has the files of all earlier logs, the oldest first. ``pins.max_age`` limits the age
    of the newest log only, so it has no effect here.
    """
    of_any_age = None if pins is None else replace(pins, max_age=None)
    try:
        return examine(before[-1], of_any_age, *before[:-1])
    except EvidenceRefusedError as refused:
        problem = f"the file of the previous log, {quoted(before[-1].origin)}: {refused.problem}"
        raise EvidenceRefusedError(refused.step, problem, hint=refused.hint) from None


_T = TypeVar("_T")


def _numbered(each: Iterable[tuple[_T, ...]]) -> dict[_T, tuple[int, ...]]:
    """Return every gap or claim with the numbers of its leaves.

    ``each`` has the gaps or the claims of each leaf, in the order of the log.
    """
    numbered: dict[_T, list[int]] = {}
    for index, several in enumerate(each):
        for one in several:
            numbered.setdefault(one, []).append(index)
    return {one: tuple(numbers) for one, numbers in numbered.items()}


def _deployment(evidence: Evidence, pins: Pins | None, old: Verified | None) -> list[Gap]:
    """Require the pinned deployment (step 2). Return a gap if a pin is missing.

    ``old`` is the result for the replaced log, if given. The first manifest is in the first log of
    a deployment, so a later log is compared by the root only.
    """
    if old is not None and evidence.root != old.evidence.root:
        raise EvidenceRefusedError(
            Step.DEPLOYMENT,
            "the file given with --before has another root certificate",
            hint="pass the last evidence file of the replaced log of this deployment",
        )
    if pins is None:
        return [Gap.NOTHING_PINNED]
    if not pins.root and not pins.manifest:
        raise EvidenceRefusedError(
            Step.DEPLOYMENT,
            "the auditor pinned neither the root nor the manifest",
            hint="pass --root-fingerprint or --manifest-fingerprint",
        )
    if pins.root and object_name(evidence.root) != pins.root:
        raise EvidenceRefusedError(
            Step.DEPLOYMENT, "the root certificate in the file is not the pinned root certificate"
        )
    if pins.manifest and old is None:
        _require_first(evidence, pins.manifest)
    if pins.root:
        return []
    return [Gap.ROOT_NOT_PINNED]


def _require_first(evidence: Evidence, manifest: str) -> None:
    leaf = None
    for first in evidence.entries[1:2]:
        with refused_at(Step.DEPLOYMENT):
            leaf = None if isinstance(first, Hidden) else read_leaf(first)
    if not isinstance(leaf, ManifestSetLeaf) or leaf.manifest != manifest:
        raise EvidenceRefusedError(
            Step.DEPLOYMENT, "the first manifest in the file is not the pinned manifest"
        )


def _log_key(evidence: Evidence) -> VerifierKey:
    """Return the log's key. Require that the root signed this key and the intermediate (step 3)."""
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
        raise EvidenceRefusedError(
            Step.LOG_KEY, "the root certificate in the file has not signed the key of the log"
        )
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


def _history(evidence: Evidence, judged_entries: Iterator[Judged]) -> tuple[Judged, ...]:
    """Return all leaves, each judged after its predecessors (step 7).

    Raises ``EvidenceRefusedError`` also if a log cannot end after the last leaf.
    """
    begin("following the history", len(evidence.entries))
    entries: list[Judged] = []
    try:
        for judged in judged_entries:
            entries.append(judged)
            if len(entries) % _PROGRESS_STEP == 0:
                advance(_PROGRESS_STEP)
        require_whole(entries[-1].after)
    except (LogInvalidError, HistoryRefusedError, RefusedError) as error:
        place = f"entry {len(entries)}" if len(entries) < len(evidence.entries) else "the end"
        problem = f"{place}: {error.message}"
        raise EvidenceRefusedError(Step.HISTORY, problem, hint=error.hint) from None
    last = entries[-1].after.intermediate
    if last and last != object_name(evidence.intermediate):
        raise EvidenceRefusedError(
            Step.HISTORY,
            f"the intermediate certificate in the file has the SHA-256"
            f" {object_name(evidence.intermediate)}; the entries of the log end with {last}",
        )
    return tuple(entries)


def _follow_entries(
    evidence: Evidence,
    key: VerifierKey,
    milestones: tuple[Milestone, ...],
    tree: WholeTree,
    pins: Pins | None,
    old: Verified | None,
) -> Iterator[Judged]:
    """Yield each leaf, judged after its predecessors, with the time of the first quorum over it.

    ``old`` is the result for the replaced log, if any: the first leaf must continue that log's end.
    """
    end = None if old is None else _end_of(old)
    log = LogReferences(
        evidence.objects.get, tree.root, set() if end is None else set(end.instances)
    )
    history = History(LogIdentity(evidence.origin, object_name(evidence.root), str(key)))
    covering = iter([each for each in milestones if each.time is not None] or milestones[-1:])
    current = next(covering)
    for index, entry in enumerate(evidence.entries):
        while current.checkpoint.size <= index:
            current = next(covering)
        if isinstance(entry, Hidden):
            step, leaf = follow_hidden(history), None
        else:
            leaf = read_leaf(entry)
            step = follow(history, leaf, log)
            if end is not None and isinstance(leaf, LogBegunLeaf):
                step = continue_from(end, leaf, step)
        history, gaps = step.history, step.gaps
        if isinstance(leaf, StartedLeaf):
            before = index, tree.root(index)
            objects, root = evidence.objects.get, evidence.root
            gaps += vouched_start(objects, root, pins, leaf, before, current.time)
        if leaf is not None:
            gaps += _late(leaf, current.time)
        yield Judged(leaf, current.time, gaps, history, step.notes)


def _end_of(old: Verified) -> LogEnd:
    leaves = (each.leaf for log in old.logs for each in log.entries)
    instances = frozenset(leaf.instance for leaf in leaves if isinstance(leaf, StartedLeaf))
    return LogEnd(old.milestones[-1].checkpoint, old.entries[-1].after, instances)


def _late(leaf: Leaf, witnessed: datetime | None) -> tuple[Gap, ...]:
    """Return a gap if the claimed time is more than ``LATE`` after the witnesses' time."""
    if witnessed is None or leaf.time <= (witnessed + LATE).timestamp() * 1_000_000:
        return ()
    return (Gap.CLAIMED_TIME_LATE,)
