"""The leaves of a log as one history: each has to be what a coordinator may do after those before.

A history is a value that ``follow`` takes one leaf further, so a watcher can keep it and continue
later. What contradicts it is refused. What cannot be judged, because something is not in the log,
is a ``Gap``: told, and never taken as checked.

1. The log begins once, with this origin, root and key; then comes the first manifest, unless the
   deployment is older than its log.
2. Claimed times and positions in the journal never run back.
3. Each ``base`` is the manifest in force. One update is pending at a time, agreed to by users who
   may, with the certificates and the threshold of ``base``, and it is in force as soon as enough
   have agreed, not before.
4. Users who change packages or upload secrets may do so, and security versions are never lowered.
5. A recovery names holders of the manifest in force, enough of them, directly before its start.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from keyhouse.base.errors import InvalidError
from keyhouse.base.printable import quoted
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.members import Decided, Members, members_of, require_head, signed_by
from keyhouse.manifest import Action
from keyhouse.manifest.package_update import read_package_update
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import Leaf, name_in_leaf


class LogView(NamedTuple):
    """What leaves refer to, in the log that they are in."""

    objects: Callable[[str], bytes | None]
    """Returns the object of this name, whose hash was compared; None: it is not there."""

    roots: Callable[[int], bytes | None]
    """Returns the root of the tree of so many leaves; None: it is not known."""


class Gap(StrEnum):
    """What could not be judged about a leaf."""

    OLDER = "the deployment is older than its log: what was before is claimed, not proven"
    REPLACES = "the log takes the place of another one"
    NO_MANIFEST = "the manifest in force is not in the log: nobody can check who might do this"
    NOT_SIGNED = "the user did not sign this: only the coordinator says that they agreed"
    NO_APPROVAL = "what the user signed is not here"
    NO_UPDATE = "the package update that the user signed is not here"
    NO_HEAD = "the head of the log that the user signed could not be compared"
    NO_QUOTE = "no quote says which code started"
    NO_COLLATERAL = "the quote of the start, or its collateral, is not here: nothing verifies it"
    CLAIMED_TIME = (
        "when witnesses first saw the start, its collateral had expired: it was judged at the time"
        " that the coordinator claims"
    )
    HIDDEN = "the entry is hidden: changes may be in it"


_DECIDING: Final = (
    leaves.UpdateProposed,
    leaves.UpdateCancelled,
    leaves.ManifestUpdated,
    leaves.PackagesUpdated,
)


class LogIdentity(Struct, frozen=True):
    """Which log it is: its origin, the hash of its root certificate (hex), its key."""

    origin: str
    root: str
    key: str


class Pending(Struct, frozen=True):
    """An update that users agree to. ``missing``: how many more have to."""

    manifest: str
    missing: int
    voters: tuple[str, ...]
    signed: tuple[str, ...] = ()  # those of the voters whose signatures were verified


class History(Struct, frozen=True, gc=False):  # a long log has many, and none refers to itself
    """A deployment after ``size`` leaves of its log. Empty texts: not known."""

    identity: LogIdentity
    size: int = 0
    time: int = 0  # the latest that the coordinator claimed, in microseconds since 1970
    at: tuple[int, int] = (-1, 0)  # epoch and sequence of the journal
    platform: str = ""
    manifest: str = ""
    intermediate: str = ""
    versions: dict[str, int] = {}  # raised since the manifest took effect
    pending: Pending | None = None
    decided: int = 0  # leaves to the last decision; agreements are not counted as such
    portion: tuple[str, int] = ("", 0)  # approval of a package update that may continue; its place
    is_older: bool = False  # than its log, and no update has told yet what was pending before
    recovering: tuple[str, ...] = ()  # holders, if the next leaf is their start
    recovering_at: str = ""
    started: leaves.Started | None = None  # the last


class Step(NamedTuple):
    """A history with one leaf more, and what could not be judged about that leaf."""

    history: History
    gaps: tuple[Gap, ...] = ()


def follow(history: History, leaf: Leaf, log: LogView) -> Step:
    """Return ``history`` with the next leaf.

    Raises ``HistoryRefusedError`` if it cannot be it, ``LogInvalidError`` for an approval that is
    not signed by its user.
    """
    if (history.size == 0) != isinstance(leaf, leaves.LogBegun):
        raise HistoryRefusedError("a log begins once, with its first leaf")
    if history.size == 1 and isinstance(leaf, leaves.ManifestSet) == history.is_older:
        raise HistoryRefusedError("the first manifest is not where it has to be")
    if leaf.time < history.time:
        raise HistoryRefusedError("the claimed time runs back")
    _require_settled(history, leaf)
    step = _followed(history, leaf, log)
    size, decided, portion = history.size + 1, history.decided, ("", 0)
    if isinstance(leaf, _DECIDING):
        decided = size
        if isinstance(leaf, leaves.PackagesUpdated):
            portion = (leaf.approval, _needed_head(history, leaf))
    grown = replace(step.history, size=size, time=leaf.time, decided=decided, portion=portion)
    return Step(grown, step.gaps)


def follow_hidden(history: History) -> Step:
    """Return ``history`` with an entry that is not shown. Later leaves must fit without it."""
    if history.size == 0 or (history.size == 1 and not history.is_older):
        raise HistoryRefusedError("how a log begins cannot be hidden")
    _require_settled(history, None)
    return Step(replace(history, size=history.size + 1), (Gap.HIDDEN,))


def _followed(history: History, leaf: Leaf, log: LogView) -> Step:  # noqa: C901, PLR0911 a case each
    match leaf:  # the most frequent kinds first: a log has a hundred thousand of them
        case leaves.SecretsUploaded():
            return _uploaded(history, leaf, log)
        case leaves.Anchor():
            return Step(_at_position(history, leaf.at))
        case leaves.LogBegun():
            return _log_begun(history, leaf)
        case leaves.ManifestSet():
            return _manifest_set(history, leaf, log)
        case leaves.Started():
            return _started(history, leaf, log)
        case leaves.Recovered():
            return _recovered(history, leaf)
        case leaves.UpdateProposed():
            return _proposed(history, leaf, log)
        case leaves.UpdateApproved():
            return _approved(history, leaf, log)
        case leaves.UpdateCancelled():
            return _cancelled(history, leaf, log)
        case leaves.ManifestUpdated():
            return _updated(history, leaf, log)
        case leaves.PackagesUpdated():
            return _packages(history, leaf, log)


def _require_settled(history: History, leaf: Leaf | None) -> None:
    """Refuse what may not stand between leaves that belong together. None: a hidden entry."""
    enough = history.pending is not None and history.pending.missing == 0
    if enough and not isinstance(leaf, leaves.ManifestUpdated):
        raise HistoryRefusedError("an update that enough users agreed to did not take effect")
    if not history.recovering_at:
        return
    is_its = (
        isinstance(leaf, leaves.Recovered | leaves.Started) and leaf.at == history.recovering_at
    )
    if not is_its:
        raise HistoryRefusedError("a recovery is not followed by its start")


def _log_begun(history: History, leaf: leaves.LogBegun) -> Step:
    if LogIdentity(leaf.origin, leaf.root, leaf.key) != history.identity:
        raise HistoryRefusedError("the log begins with another origin, root or key")
    gaps = [Gap.OLDER] if leaf.imported else []
    if leaf.previous is not None:
        gaps.append(Gap.REPLACES)
    return Step(replace(history, platform=leaf.platform, is_older=bool(gaps)), tuple(gaps))


def _manifest_set(history: History, leaf: leaves.ManifestSet, log: LogView) -> Step:
    if history.manifest or history.size != 1:
        raise HistoryRefusedError("a deployment has one first manifest")
    return _in_force(history, leaf, log)


def _in_force(
    history: History, leaf: leaves.ManifestSet | leaves.ManifestUpdated, log: LogView
) -> Step:
    """Return the history with the manifest of ``leaf`` in force."""
    grown = replace(
        history,
        manifest=leaf.manifest,
        intermediate=leaf.intermediate,
        versions={},
        pending=None,
        is_older=False,
    )
    members = _members(leaf.manifest, log)
    if members is None:
        return Step(grown, (Gap.NO_MANIFEST,))
    named = members.origin
    if isinstance(leaf, leaves.ManifestSet):  # later ones may leave it out
        named = named or f"keyhouse/{history.identity.root[:32]}"
    if named not in {"", history.identity.origin}:
        raise HistoryRefusedError("the manifest gives the log another name")
    said = leaf.recovery or leaves.Recovery(0, 0)
    if members.recovery != (said.holders, said.threshold):
        raise HistoryRefusedError("the recovery keys are not those of the manifest")
    return Step(grown)


def _started(history: History, leaf: leaves.Started, log: LogView) -> Step:
    if leaf.platform != history.platform:
        raise HistoryRefusedError("no deployment moves between kinds of platforms")
    gaps: tuple[Gap, ...] = () if leaf.quote else (Gap.NO_QUOTE,)
    if history.recovering_at:
        members = _members(history.manifest, log)
        if members is None:
            gaps = (*gaps, Gap.NO_MANIFEST)
        elif len(history.recovering) < members.recovery[1]:
            raise HistoryRefusedError("too few holders recovered the state")
        else:
            members.require_holders(history.recovering)
    moved = _at_position(history, leaf.at)
    return Step(replace(moved, started=leaf, recovering=(), recovering_at=""), gaps)


def _recovered(history: History, leaf: leaves.Recovered) -> Step:
    holders = (*history.recovering, *leaf.holders)
    if not leaf.holders or not leaf.at or len(set(holders)) != len(holders):
        raise HistoryRefusedError("a recovery names no holder, or one of them twice")
    return Step(replace(history, recovering=holders, recovering_at=leaf.at))


def _proposed(history: History, leaf: leaves.UpdateProposed, log: LogView) -> Step:
    history = _on_base(history, leaf.base)
    if history.pending is not None:
        raise HistoryRefusedError("an update was proposed while another one was pending")
    gaps = _agreement(history, leaf, log)
    members = _members(history.manifest, log)
    if leaf.needed < 1 or (members is not None and leaf.needed != members.needed):
        raise HistoryRefusedError("another number of users would have to agree")
    signed = () if Gap.NOT_SIGNED in gaps else (leaf.user,)
    pending = Pending(leaf.manifest, leaf.needed - 1, (leaf.user,), signed)
    return Step(replace(history, pending=pending, is_older=False), gaps)


def _approved(history: History, leaf: leaves.UpdateApproved, log: LogView) -> Step:
    pending = history.pending
    if pending is None and history.is_older:  # it was proposed before the log began
        pending = Pending(leaf.manifest, leaf.missing + 1, ())
    if pending is None or pending.manifest != leaf.manifest:
        raise HistoryRefusedError("a user agreed to a manifest that is not pending")
    gaps = _agreement(history, leaf, log)
    voters, signed = _with(pending.voters, leaf.user), pending.signed
    missing = pending.missing - (len(voters) - len(pending.voters))
    if leaf.missing != missing and not (history.is_older and leaf.missing == pending.missing):
        raise HistoryRefusedError("another number of users would still have to agree")
    if Gap.NOT_SIGNED not in gaps:
        signed = _with(signed, leaf.user)
    pending = Pending(leaf.manifest, leaf.missing, voters, signed)
    return Step(replace(history, pending=pending), gaps)


def _cancelled(history: History, leaf: leaves.UpdateCancelled, log: LogView) -> Step:
    pending = history.pending
    if pending is None and not history.is_older:
        raise HistoryRefusedError("an update was cancelled, but none was pending")
    if pending is not None and pending.manifest != leaf.manifest:
        raise HistoryRefusedError("an update was cancelled that was not pending")
    gaps = _agreement(history, leaf, log) if leaf.user or leaf.certificate else ()
    return Step(replace(history, pending=None, is_older=False), gaps)


def _updated(history: History, leaf: leaves.ManifestUpdated, log: LogView) -> Step:
    history = _on_base(history, leaf.base)
    pending = history.pending
    if pending is None or pending.manifest != leaf.manifest or pending.missing:
        raise HistoryRefusedError("a manifest took effect that not enough users had agreed to")
    return _in_force(history, leaf, log)


def _agreement(history: History, leaf: Decided, log: LogView) -> tuple[Gap, ...]:
    """Return what is not proven of a user's decision. Raises if it is not the user's."""
    members = _members(history.manifest, log)
    if members is None:
        return (Gap.NOT_SIGNED, Gap.NO_MANIFEST)
    certificate = members.require_user(leaf.user, leaf.certificate)
    if isinstance(leaf, leaves.PackagesUpdated):
        names = [name for name, _ in leaf.versions]
        members.require_allowed(leaf.user, Action.UPDATE_SECURITY_VERSION, names)
    else:
        members.require_allowed(leaf.user, Action.UPDATE_MANIFEST)
    if not leaf.approval:
        if members.must_sign:
            raise HistoryRefusedError("a user did not sign, but the manifest in force demands it")
        return (Gap.NOT_SIGNED,)
    raw = log.objects(leaf.approval)
    if raw is None:
        return (Gap.NOT_SIGNED, Gap.NO_APPROVAL)
    approval = signed_by(certificate, raw, leaf)
    where = (history.identity.origin, history.identity.root, history.manifest)
    if (approval.origin, approval.root, approval.base) != where:
        raise HistoryRefusedError("the user signed for another log, or on another manifest")
    known = require_head(approval, log.roots, _needed_head(history, leaf), history.size)
    gaps = () if known else (Gap.NO_HEAD,)
    if isinstance(leaf, leaves.PackagesUpdated):
        gaps = (*gaps, *_signed_versions(log.objects(approval.manifest), leaf))
    return gaps


def _needed_head(history: History, leaf: Decided) -> int:
    """Return how many leaves the head of an approval has at least: all decisions before it."""
    approval, decided = history.portion
    return decided if approval and approval == leaf.approval else history.decided


def _signed_versions(raw: bytes | None, leaf: leaves.PackagesUpdated) -> tuple[Gap, ...]:
    """Return a gap unless ``raw``, what the user signed, is known; the versions are in it."""
    if raw is None:
        return (Gap.NO_UPDATE,)
    try:
        update = read_package_update(raw)
    except InvalidError:
        update = None
    signed = {} if update is None else update.packages
    versions = {name_in_leaf(name): each.security_version for name, each in signed.items()}
    if any(versions.get(name) != int(version) for name, version in leaf.versions):
        raise HistoryRefusedError("the user signed other security versions")
    return ()


def _packages(history: History, leaf: leaves.PackagesUpdated, log: LogView) -> Step:
    history = _on_base(history, leaf.base)
    versions = dict(leaf.versions)
    if not versions or len(versions) != len(leaf.versions):
        raise HistoryRefusedError("a package update names no package, or one of them twice")
    gaps = _agreement(history, leaf, log)
    members = _members(history.manifest, log)
    for name, text in versions.items():
        least = 0 if members is None else members.security_version(name)
        if not max(least, history.versions.get(name, 0)) <= int(text) < 1 << 64:
            raise HistoryRefusedError(f"the security version of {quoted(name)} was lowered")
    raised = {**history.versions, **{name: int(text) for name, text in versions.items()}}
    return Step(replace(history, versions=raised, intermediate=leaf.intermediate), gaps)


def _uploaded(history: History, leaf: leaves.SecretsUploaded, log: LogView) -> Step:
    if not leaf.uploads:
        raise HistoryRefusedError("an upload names no secret")
    members = _members(history.manifest, log)
    if members is None:
        return Step(history, (Gap.NO_MANIFEST,))
    for upload in leaf.uploads:
        members.require_user(upload.user, upload.certificate)
        members.require_allowed(upload.user, Action.WRITE_SECRET, upload.names)
    return Step(history)


def _on_base(history: History, base: str) -> History:
    """Return the history with ``base`` in force: it is, or nothing has told so far what is."""
    if history.manifest and history.manifest != base:
        raise HistoryRefusedError("a change is of another manifest than the one in force")
    return replace(history, manifest=base)


def _at_position(history: History, at: str) -> History:
    epoch, _, rest = at.partition(".")
    position = (int(epoch), int(rest.partition(".")[0])) if at else (0, 0)
    if position <= history.at:
        raise HistoryRefusedError("the position in the journal runs back")
    return replace(history, at=position)


def _members(manifest: str, log: LogView) -> Members | None:
    raw = log.objects(manifest) if manifest else None
    return None if raw is None else members_of(raw)


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)
