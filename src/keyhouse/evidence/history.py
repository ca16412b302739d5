"""The leaves of a log as one history: each leaf must be permitted after its predecessors.

``follow`` extends a history by one leaf. A history is a value, so a watcher can store it and
continue later. A contradiction is refused. A leaf that depends on data outside the log is a
``Gap``: the gap is reported and never counts as verified.

1. The log begins once, with this origin, root and key. Then comes the first manifest, unless the
   deployment is older than its log.
2. Claimed times never decrease, and positions in the journal always increase.
3. The ``base`` in each leaf is the manifest in force. Only one update is pending at a time. Users
   with the right to update agree, with the certificates and the threshold of the manifest in force.
   The update takes effect as soon as enough users have agreed, and not earlier. Nobody raises
   versions of packages while an update is pending.
4. Users who change packages or upload secrets must have the right to do so. A package update never
   lowers a security version. A full update may lower versions, and a note of its leaf names the
   packages.
5. A recovery comes directly before its start, and names enough holders of recovery keys in the
   manifest in force.
6. Users who revoke workloads must have the right to do so. The marble roots change only with the
   manifest or with versions of packages, and a former root was trusted before.
7. Every object of a leaf is present, except a manifest whose leaf states that it is not public. A
   manifest is acceptable to coordinators.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from keyhouse.base.printable import quoted
from keyhouse.evidence.agreement import DecisionPlace, agreement_gaps
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.members import Decided, ManifestUsers, members_of
from keyhouse.evidence.trust import Roots, judge_revocation, roots_of
from keyhouse.manifest import Action
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import Leaf


class LogReferences(NamedTuple):
    """The objects and tree roots of a log, for the names and heads in its leaves."""

    objects: Callable[[str], bytes | None]
    """Return the object of this name, after a comparison of its hash; None if the log lacks it."""

    roots: Callable[[int], bytes]
    """Return the root over the given number of leaves, at most the number of followed leaves."""

    instances: set[str]
    """The instances of all starts so far; ``follow`` adds to this set.

    A history does not contain this set. There is one history for each leaf, so sets in all of them
    would take quadratic memory.
    """


_DECIDING: Final = (
    leaves.LogBegunLeaf,
    leaves.ManifestSetLeaf,
    leaves.UpdateProposedLeaf,
    leaves.UpdateCancelledLeaf,
    leaves.ManifestUpdatedLeaf,
    leaves.PackagesUpdatedLeaf,
)


_CHANGES_ROOTS: Final = (
    leaves.LogBegunLeaf,
    leaves.ManifestSetLeaf,
    leaves.ManifestUpdatedLeaf,
    leaves.PackagesUpdatedLeaf,
)


class LogIdentity(Struct, frozen=True):
    """The identity of a log: the origin, the hash of the root certificate (hex), and the key."""

    origin: str
    root: str
    key: str


class PendingInLog(Struct, frozen=True):
    """An update that waits for agreement.

    ``voters`` have agreed, and ``missing`` further users have to agree.
    """

    manifest: str
    missing: int
    voters: tuple[str, ...]
    signed: tuple[str, ...] = ()  # voters with verified signatures
    is_older: bool = False  # older than the log: the earlier voters are unknown


class History(Struct, frozen=True, gc=False):  # no cycles, and a long log has many histories
    """The facts about a deployment after ``size`` leaves of its log.

    An empty text is an unknown value.
    """

    identity: LogIdentity
    size: int = 0
    time: int = 0  # the latest claimed time, in microseconds since 1970
    at: tuple[int, int] = (-1, 0)  # epoch and sequence in the journal
    platform: str = ""
    manifest: str = ""
    intermediate: str = ""
    versions: dict[str, int] = {}  # raised versions since the manifest took effect
    pending: PendingInLog | None = None
    awaits_manifest: bool = False  # the log of a new deployment, before its first manifest
    decided: int = 0  # leaves up to the last decision; an agreement is not a decision here
    portion: tuple[str, int] = ("", 0)  # approval of an unfinished package update; its least head
    portion_names: frozenset[str] = frozenset()  # packages of the leaves of ``portion``
    is_older: bool = False  # older than its log, so an unknown update may be pending
    recovering: tuple[str, ...] = ()  # holders, if the next leaf is their start
    recovering_at: str = ""
    started: leaves.StartedLeaf | None = None  # the last start
    roots: Roots = {}
    changes_roots: bool = False  # the next leaf may state the marble roots


class HistoryStep(NamedTuple):
    """A history with a further leaf; the gaps of this leaf, and notes for people."""

    history: History
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()


def follow(history: History, leaf: Leaf, log: LogReferences) -> HistoryStep:
    """Return ``history`` with the next ``leaf`` of ``log``.

    Raises ``HistoryRefusedError`` for a leaf that is not permitted after ``history``, and
    ``LogInvalidError`` for an approval without its user's signature.
    """
    if (history.size == 0) != isinstance(leaf, leaves.LogBegunLeaf):
        raise HistoryRefusedError(
            "the first entry of a log must begin the log, and no later entry can"
        )
    if history.awaits_manifest != isinstance(leaf, leaves.ManifestSetLeaf):
        raise HistoryRefusedError(
            "the second entry of the first log must set the first manifest, and no other entry can"
        )
    if leaf.time < history.time:
        raise HistoryRefusedError(
            f"the claimed time {leaf.time} is before the previous entry's time {history.time}"
        )
    _require_settled(history, leaf)
    step = _follow_leaf(_with_known_roots(history, leaf), leaf, log)
    size, decided, portion = history.size + 1, history.decided, ("", 0)
    if isinstance(leaf, _DECIDING):
        decided = size
        if isinstance(leaf, leaves.PackagesUpdatedLeaf):
            portion = (leaf.approval, _needed_head(history, leaf))
    extended = replace(
        step.history,
        size=size,
        time=leaf.time,
        decided=decided,
        portion=portion,
        changes_roots=isinstance(leaf, _CHANGES_ROOTS),
    )
    return step._replace(history=extended)


def follow_hidden(history: History) -> HistoryStep:
    """Return ``history`` after a hidden leaf: the file has only the hash of this leaf.

    A later leaf is refused if only the hidden leaf could permit the later leaf.
    """
    if history.size == 0 or history.awaits_manifest:
        raise HistoryRefusedError("the first entries of a log cannot be hidden")
    _require_settled(history, None)
    known = _with_known_roots(history, None)
    extended = replace(known, size=history.size + 1, portion=("", 0), changes_roots=False)
    return HistoryStep(extended, (Gap.HIDDEN_ENTRY,))


def require_whole(history: History) -> None:
    """Require that a log may end after ``history``. Raises ``HistoryRefusedError``.

    A coordinator appends related leaves together, so no checkpoint divides them.
    """
    if history.size == 1 and not history.is_older:
        raise HistoryRefusedError("the log ends before its first manifest")
    if history.recovering_at:
        raise HistoryRefusedError("the log ends between a recovery and its start")
    if history.pending is not None and history.pending.missing == 0:
        raise HistoryRefusedError("the log ends before an update with enough agreements")


def _follow_leaf(history: History, leaf: Leaf, log: LogReferences) -> HistoryStep:  # noqa: C901, PLR0911 a case each
    match leaf:  # the most frequent kinds first: a log can have a hundred thousand of them
        case leaves.SecretsUploadedLeaf():
            return _uploaded(history, leaf, log)
        case leaves.AnchorLeaf():
            return HistoryStep(_at_position(history, leaf.at))
        case leaves.LogBegunLeaf():
            return _log_begun(history, leaf, log)
        case leaves.ManifestSetLeaf():
            return _in_force(history, leaf, log)
        case leaves.StartedLeaf():
            return _started(history, leaf, log)
        case leaves.RecoveredLeaf():
            return _recovered(history, leaf)
        case leaves.UpdateProposedLeaf():
            return _proposed(history, leaf, log)
        case leaves.UpdateApprovedLeaf():
            return _approved(history, leaf, log)
        case leaves.UpdateCancelledLeaf():
            return _cancelled(history, leaf, log)
        case leaves.ManifestUpdatedLeaf():
            return _updated(history, leaf, log)
        case leaves.PackagesUpdatedLeaf():
            return _packages(history, leaf, log)
        case leaves.TrustLeaf():
            return _trust(history, leaf, log)


def _require_settled(history: History, leaf: Leaf | None) -> None:
    """Require that ``leaf`` does not divide leaves that belong together.

    After the last required agreement, the next leaf is the update. After a leaf of a recovery, the
    next leaf is its start or a further leaf of the recovery. ``leaf`` is None for a hidden leaf.
    Raises ``HistoryRefusedError``.
    """
    enough = history.pending is not None and history.pending.missing == 0
    if enough and not isinstance(leaf, leaves.ManifestUpdatedLeaf):
        raise HistoryRefusedError("an update with enough agreements did not take effect")
    if not history.recovering_at:
        return
    is_its = (
        isinstance(leaf, leaves.RecoveredLeaf | leaves.StartedLeaf)
        and leaf.at == history.recovering_at
    )
    if not is_its:
        raise HistoryRefusedError("a recovery is not followed by its start")


def _with_known_roots(history: History, leaf: Leaf | None) -> History:
    """Return ``history``, without marble roots if the roots are unknown before ``leaf``.

    The roots may have changed with the leaf before, for example with an update. Then ``leaf`` has
    to state the roots, or to be a further leaf of a package update. Otherwise the roots are
    unknown, because older versions of Keyhouse write no leaf about roots. None: a leaf that cannot
    state roots.
    """
    states = isinstance(leaf, leaves.TrustLeaf | leaves.PackagesUpdatedLeaf)
    return replace(history, roots={}) if history.changes_roots and not states else history


def _log_begun(history: History, leaf: leaves.LogBegunLeaf, log: LogReferences) -> HistoryStep:
    if LogIdentity(leaf.origin, leaf.root, leaf.key) != history.identity:
        raise HistoryRefusedError(
            "the first entry states another origin, root or log key than the evidence file"
        )
    gaps = [Gap.OLDER_THAN_LOG] if leaf.imported and leaf.previous is None else []
    if leaf.previous is not None:
        gaps.append(Gap.REPLACES_LOG)
    if leaf.imported and log.objects(leaf.imported) is None:
        raise _missing("the update log before this log", leaf.imported)
    is_older = bool(gaps)
    extended = replace(
        history, platform=leaf.platform, is_older=is_older, awaits_manifest=not is_older
    )
    if isinstance(leaf.manifest, str):
        if not extended.is_older or not isinstance(leaf.intermediate, str):
            raise HistoryRefusedError(
                "the first entry states a manifest in force, although the deployment is new"
            )
        gaps += _publication(leaf.manifest, leaf.public, log)
        extended = replace(extended, manifest=leaf.manifest, intermediate=leaf.intermediate)
    elif leaf.intermediate is not UNSET or leaf.public is not UNSET:
        raise HistoryRefusedError(
            "the first entry names an intermediate certificate, but no manifest"
        )
    return HistoryStep(extended, tuple(gaps))


def _in_force(
    history: History, leaf: leaves.ManifestSetLeaf | leaves.ManifestUpdatedLeaf, log: LogReferences
) -> HistoryStep:
    """Return the step to the history with the manifest of ``leaf`` in force."""
    extended = replace(
        history,
        manifest=leaf.manifest,
        intermediate=leaf.intermediate,
        versions={},
        pending=None,
        is_older=False,
        awaits_manifest=False,
    )
    gaps = _publication(leaf.manifest, leaf.public, log)
    members = _members(leaf.manifest, log)
    if members is None:
        return HistoryStep(extended, gaps)
    named = members.origin
    if isinstance(leaf, leaves.ManifestSetLeaf):  # later manifests may omit the name
        named = named or f"keyhouse/{history.identity.root[:32]}"
    if named not in {"", history.identity.origin}:
        raise HistoryRefusedError(
            f"the manifest names the log {quoted(named)}; its origin is"
            f" {quoted(history.identity.origin)}"
        )
    stated = leaf.recovery or leaves.RecoverySetup(0, 0)
    if members.recovery != (stated.holders, stated.threshold):
        holders, threshold = members.recovery
        raise HistoryRefusedError(
            f"the entry states {stated.threshold} of {stated.holders} recovery keys; the manifest"
            f" requires {threshold} of {holders}"
        )
    return HistoryStep(extended, gaps, tuple(_lowered(history, members, log)))


def _lowered(history: History, members: ManifestUsers, log: LogReferences) -> Iterator[str]:
    """Yield a note for each package whose version ``members``, the new manifest, lowers."""
    before = _members(history.manifest, log)
    raised = history.versions if before is None else {**before.versions, **history.versions}
    for name, new in sorted(members.versions.items()):
        old = raised.get(name, 0)
        if new < old:
            yield f"lowers the security version of {quoted(name)} from {old} to {new}"


def _publication(manifest: str, public: bool | UnsetType, log: LogReferences) -> tuple[Gap, ...]:  # noqa: FBT001 a field of leaves
    """Return a gap if the object of ``manifest`` is missing.

    ``public`` is the statement in the leaf, whether the manifest is public. Leaves of an older
    version lack this statement. Raises ``HistoryRefusedError`` if a public manifest is missing, or
    if the statement contradicts the manifest.
    """
    members = _members(manifest, log)
    if members is None:
        if public is True:
            raise _missing("a manifest that is public", manifest)
        return (Gap.MANIFEST_MISSING if public is UNSET else Gap.MANIFEST_NOT_PUBLIC,)
    if public is not UNSET and public == members.manifest.has_values:
        raise HistoryRefusedError(
            f"the entry states that the manifest {manifest} is {'' if public else 'not '}public,"
            f" which contradicts the manifest"
        )
    return ()


def _missing(what: str, name: str) -> HistoryRefusedError:
    return HistoryRefusedError(
        f"the entry names {what}, and the object {name} is missing",
        hint="request a complete file: the log of the deployment has this object",
    )


def _started(history: History, leaf: leaves.StartedLeaf, log: LogReferences) -> HistoryStep:
    if leaf.platform != history.platform:
        raise HistoryRefusedError(
            f"the start is on the platform {quoted(leaf.platform)}; the log began on"
            f" {quoted(history.platform)}"
        )
    if leaf.instance in log.instances:
        raise HistoryRefusedError(f"the instance {leaf.instance} starts twice")
    log.instances.add(leaf.instance)
    gaps: tuple[Gap, ...] = ()
    if history.recovering_at:
        members = _members(history.manifest, log)
        if members is None:
            gaps = (Gap.RIGHTS_UNKNOWN,)
        elif len(history.recovering) < members.recovery[1]:
            raise HistoryRefusedError(
                f"{len(history.recovering)} holders recovered the state; the manifest requires"
                f" {members.recovery[1]}"
            )
        else:
            members.require_holders(history.recovering)
    moved = _at_position(history, leaf.at)
    return HistoryStep(replace(moved, started=leaf, recovering=(), recovering_at=""), gaps)


def _recovered(history: History, leaf: leaves.RecoveredLeaf) -> HistoryStep:
    holders = (*history.recovering, *leaf.holders)
    if not leaf.holders or not leaf.at or len(set(holders)) != len(holders):
        raise HistoryRefusedError("a recovery names no holder, or repeats a holder")
    return HistoryStep(replace(history, recovering=holders, recovering_at=leaf.at))


def _proposed(history: History, leaf: leaves.UpdateProposedLeaf, log: LogReferences) -> HistoryStep:
    history = _on_base(history, leaf.base)
    if history.pending is not None:
        raise HistoryRefusedError("an update was proposed while another update was pending")
    gaps = _agreement(history, leaf, log)
    members = _members(history.manifest, log)
    if leaf.needed < 1:
        raise HistoryRefusedError(
            "the entry states that the update needs no agreement, so it cannot be pending"
        )
    if members is not None and leaf.needed != members.needed:
        raise HistoryRefusedError(
            f"the entry states that {leaf.needed} users have to agree; the manifest in force"
            f" demands {members.needed}"
        )
    signed = () if Gap.NOT_SIGNED in gaps else (leaf.user,)
    pending = PendingInLog(leaf.manifest, leaf.needed - 1, (leaf.user,), signed)
    gaps = (*gaps, *_publication(leaf.manifest, leaf.public, log))
    return HistoryStep(replace(history, pending=pending, is_older=False), gaps)


def _approved(history: History, leaf: leaves.UpdateApprovedLeaf, log: LogReferences) -> HistoryStep:
    pending = history.pending
    if pending is None and history.is_older:  # the proposal is older than the log
        pending = PendingInLog(leaf.manifest, leaf.missing + 1, (), is_older=True)
    if pending is None or pending.manifest != leaf.manifest:
        raise HistoryRefusedError("a user agreed to a manifest that is not pending")
    gaps = _agreement(history, leaf, log)
    voters, signed = _with(pending.voters, leaf.user), pending.signed
    missing = pending.missing - (len(voters) - len(pending.voters))
    if leaf.missing != missing and not (pending.is_older and leaf.missing == pending.missing):
        raise HistoryRefusedError(
            f"the entry states that {leaf.missing} more users have to agree; expected {missing}"
        )
    if Gap.NOT_SIGNED not in gaps:
        signed = _with(signed, leaf.user)
    if pending.is_older:
        gaps = (*gaps, Gap.AGREED_BEFORE_LOG)
    extended = replace(pending, missing=leaf.missing, voters=voters, signed=signed)
    return HistoryStep(replace(history, pending=extended), gaps)


def _cancelled(
    history: History, leaf: leaves.UpdateCancelledLeaf, log: LogReferences
) -> HistoryStep:
    pending = history.pending
    if pending is None and not history.is_older:
        raise HistoryRefusedError("the entry cancels an update, but no update was pending")
    if pending is not None and pending.manifest != leaf.manifest:
        raise HistoryRefusedError("the entry cancels an update that was not pending")
    gaps = _cancellation(history, leaf, log)
    if pending is None:
        gaps = (*gaps, Gap.AGREED_BEFORE_LOG)
    return HistoryStep(replace(history, pending=None, is_older=False), gaps)


def _cancellation(
    history: History, leaf: leaves.UpdateCancelledLeaf, log: LogReferences
) -> tuple[Gap, ...]:
    """Return the gaps of a cancellation by a user or by the coordinator."""
    if leaf.user or leaf.certificate:
        return _agreement(history, leaf, log)
    if leaf.approval:
        raise HistoryRefusedError("a cancellation names an approval, but no user")
    return (Gap.CANCELLED_BY_COORDINATOR,)


def _updated(history: History, leaf: leaves.ManifestUpdatedLeaf, log: LogReferences) -> HistoryStep:
    history = _on_base(history, leaf.base)
    pending = history.pending
    if pending is None or pending.manifest != leaf.manifest or pending.missing:
        raise HistoryRefusedError("a manifest took effect without enough agreements")
    step = _in_force(history, leaf, log)
    return step._replace(gaps=(*step.gaps, Gap.AGREED_BEFORE_LOG)) if pending.is_older else step


def _agreement(history: History, leaf: Decided, log: LogReferences) -> tuple[Gap, ...]:
    """Return the gaps of the user's decision in ``leaf``.

    Raises the errors of ``agreement_gaps``.
    """
    members = _members(history.manifest, log)
    identity, needed = history.identity, _needed_head(history, leaf)
    place = DecisionPlace(identity.origin, identity.root, history.manifest, needed, history.size)
    return agreement_gaps(members, leaf, place, log.objects, log.roots)


def _needed_head(history: History, leaf: Decided) -> int:
    """Return the least size (in leaves) of the head in an approval of ``leaf``.

    A user signs an approval together with a head of the log. This head must cover all earlier
    decisions. The leaves of a package update share an approval, so for each of these leaves the
    head has to cover only the decisions before the first leaf.
    """
    approval, decided = history.portion
    return decided if approval and approval == leaf.approval else history.decided


def _packages(
    history: History, leaf: leaves.PackagesUpdatedLeaf, log: LogReferences
) -> HistoryStep:
    history = _on_base(history, leaf.base)
    if history.pending is not None:
        raise HistoryRefusedError("security versions were raised while an update was pending")
    versions = dict(leaf.versions)
    if not versions or len(versions) != len(leaf.versions):
        raise HistoryRefusedError("a package update names no package, or repeats a package")
    gaps = _agreement(history, leaf, log)
    members = _members(history.manifest, log)
    for name, text in versions.items():
        least = 0 if members is None else members.security_version(name)
        if not max(least, history.versions.get(name, 0)) <= int(text) < 1 << 64:
            raise HistoryRefusedError(f"the security version of {quoted(name)} was lowered")
    raised = {**history.versions, **{name: int(text) for name, text in versions.items()}}
    extended = replace(
        history,
        versions=raised,
        intermediate=leaf.intermediate,
        portion_names=_portion_names(history, leaf),
        # A coordinator refuses package updates while an update is pending. So no update from before
        # the log is pending now.
        is_older=False,
    )
    return HistoryStep(extended, gaps)


def _portion_names(history: History, leaf: leaves.PackagesUpdatedLeaf) -> frozenset[str]:
    """Return the packages of all leaves of one package update, up to and including ``leaf``.

    Raises ``HistoryRefusedError`` for a repeated package: one approval would count twice.
    """
    names = frozenset(name for name, _ in leaf.versions)
    if not leaf.approval or leaf.approval != history.portion[0]:
        return names
    if repeated := names & history.portion_names:
        raise HistoryRefusedError(
            f"one approval raises the version of {quoted(min(repeated))} in two entries"
        )
    return names | history.portion_names


def _uploaded(
    history: History, leaf: leaves.SecretsUploadedLeaf, log: LogReferences
) -> HistoryStep:
    if not leaf.uploads or not all(upload.names for upload in leaf.uploads):
        raise HistoryRefusedError("an upload names no secret")
    members = _members(history.manifest, log)
    if members is None:
        return HistoryStep(history, (Gap.RIGHTS_UNKNOWN,))
    for upload in leaf.uploads:
        members.require_user(upload.user, upload.certificate)
        members.require_allowed(upload.user, Action.WRITE_SECRET, upload.names)
    return HistoryStep(history)


def _trust(history: History, leaf: leaves.TrustLeaf, log: LogReferences) -> HistoryStep:
    match leaf.what:
        case leaves.TrustChange.REVOKED:
            gaps = judge_revocation(_members(history.manifest, log), leaf)
            return HistoryStep(_with_known_roots(history, None), gaps)
        case leaves.TrustChange.ROOTS:
            if not history.changes_roots or not history.manifest:
                raise HistoryRefusedError(
                    "the marble roots change without a change of manifest or package versions"
                )
            return HistoryStep(replace(history, roots=roots_of(leaf, history.roots)))
        case _:
            return HistoryStep(_with_known_roots(history, None), (Gap.TRUST_UNKNOWN,))


def _on_base(history: History, base: str) -> History:
    """Return ``history`` with ``base`` as the manifest in force, if this manifest was unknown.

    A leaf about a change states ``base``, the SHA-256 of the manifest in force before the change.
    Raises ``HistoryRefusedError`` if a different manifest is in force.
    """
    if history.manifest and history.manifest != base:
        raise HistoryRefusedError("a change is based on a manifest that is not in force")
    return replace(history, manifest=base)


def _at_position(history: History, at: str) -> History:
    epoch, _, rest = at.partition(".")
    position = (int(epoch), int(rest.partition(".")[0])) if at else (0, 0)
    if position <= history.at:
        raise HistoryRefusedError("the position in the journal does not increase")
    return replace(history, at=position)


def _members(manifest: str, log: LogReferences) -> ManifestUsers | None:
    raw = log.objects(manifest) if manifest else None
    return None if raw is None else members_of(raw)


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)
