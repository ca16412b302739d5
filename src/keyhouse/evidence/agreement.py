"""Verify that a user made the decision in a leaf: by the user's rights and a signed approval."""

from collections.abc import Callable
from typing import NamedTuple

from keyhouse.base.errors import InvalidError
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.members import Decided, ManifestUsers, require_head, verify_approval
from keyhouse.manifest import Action
from keyhouse.manifest.check import check_package_update, read_package_update
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import name_in_leaf


class DecisionPlace(NamedTuple):
    """The facts that the approval of a decision must match: log, manifest in force, head.

    ``origin`` is the name of the log, ``root`` the hash of the root certificate, and ``base`` the
    hash of the manifest in force. The head in the approval must have at least ``decided`` and at
    most ``size`` leaves.
    """

    origin: str
    root: str
    base: str
    decided: int
    size: int


def agreement_gaps(
    members: ManifestUsers | None,
    leaf: Decided,
    place: DecisionPlace,
    objects: Callable[[str], bytes | None],
    roots: Callable[[int], bytes],
) -> tuple[Gap, ...]:
    """Verify the decision in ``leaf``, and return its gaps.

    ``members`` belong to the manifest in force; None: the file does not have this manifest.
    ``objects`` returns an object of the log by its name, and ``roots`` the root over a number of
    leaves. Raises ``HistoryRefusedError`` or ``LogInvalidError`` in three cases: the user may not
    make this decision, the user signed a different statement, or an object of the leaf is missing.
    """
    raw = objects(leaf.approval) if leaf.approval else None
    if leaf.approval and raw is None:
        raise HistoryRefusedError(
            f"the entry names an approval, and the object {leaf.approval} is missing",
            hint="request a complete file: the log of the deployment has this object",
        )
    if members is None:
        return (Gap.NOT_SIGNED, Gap.RIGHTS_UNKNOWN)
    certificate = members.require_user(leaf.user, leaf.certificate)
    _require_allowed(members, leaf)
    if raw is None:
        if members.must_sign:
            raise HistoryRefusedError(
                "the entry has no signed approval, but the manifest in force requires one"
            )
        return (Gap.NOT_SIGNED,)
    approval = verify_approval(certificate, raw, leaf)
    if (approval.origin, approval.root, approval.base) != (place.origin, place.root, place.base):
        raise HistoryRefusedError(
            "the approval of the user is for a different log or base manifest"
        )
    require_head(approval, roots, place.decided, place.size)
    if isinstance(leaf, leaves.PackagesUpdatedLeaf):
        _require_signed_versions(objects(approval.manifest), leaf)
    return ()


def _require_allowed(members: ManifestUsers, leaf: Decided) -> None:
    if isinstance(leaf, leaves.PackagesUpdatedLeaf):
        names = [name for name, _ in leaf.versions]
        members.require_allowed(leaf.user, Action.UPDATE_SECURITY_VERSION, names)
    else:
        members.require_allowed(leaf.user, Action.UPDATE_MANIFEST)


def _require_signed_versions(raw: bytes | None, leaf: leaves.PackagesUpdatedLeaf) -> None:
    """Require that the package update ``raw``, which the user signed, has the versions of ``leaf``.

    None: the log lacks the update. Raises ``HistoryRefusedError``, also for None.
    """
    if raw is None:
        raise HistoryRefusedError(
            "the package update that the user signed is missing",
            hint="request a complete file: the log of the deployment has this update",
        )
    try:
        update = read_package_update(raw)
        # A coordinator accepts an update of versions alone. The entry decides whether a version is
        # high enough, so here the version in force is 0.
        none_raised = {} if update is None else dict.fromkeys(update.packages, 0)
        signed = {} if update is None else check_package_update(update, none_raised)
    except InvalidError:
        signed = {}
    versions = {name_in_leaf(name): version for name, version in signed.items()}
    if any(versions.get(name) != int(version) for name, version in leaf.versions):
        raise HistoryRefusedError(
            "the package update that the user signed has other security versions than the entry"
        )
