"""Users by their names in leaves: their rights by a manifest, and their signatures."""

import hmac
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from keyhouse.base.errors import InvalidError
from keyhouse.base.printable import quoted
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.manifest import Action, Manifest, Permissions
from keyhouse.manifest.check import check
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.approval import Approval, DecisionKind, SignedApproval
from keyhouse.transparency.leaf import name_in_leaf, object_name

Decided = (
    leaves.UpdateProposedLeaf
    | leaves.UpdateApprovedLeaf
    | leaves.UpdateCancelledLeaf
    | leaves.PackagesUpdatedLeaf
)
"""Leaves with the decision of a user."""

_DECISIONS: Final = {
    leaves.UpdateProposedLeaf: DecisionKind.PROPOSE,
    leaves.UpdateApprovedLeaf: DecisionKind.APPROVE,
    leaves.UpdateCancelledLeaf: DecisionKind.CANCEL,
    leaves.PackagesUpdatedLeaf: DecisionKind.PACKAGES,
}

_ANY_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of a check. Warnings about certificates depend on the time, but refusals do not."""


class ManifestUsers:
    """The users and holders of one manifest, and their rights.

    A leaf contains a short name of the manifest as such, and a long name as a hash. This form is a
    *name in leaves* (``name_in_leaf``).
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._permissions = Permissions(manifest)
        self._users = {name_in_leaf(name): name for name in manifest.users}
        self._certificates = {
            (name_in_leaf(name), object_name(user.certificate)): user.certificate
            for name, user in manifest.users.items()
        }
        self._allowed: set[tuple[str, Action, tuple[str, ...]]] = set()
        resources = (*manifest.secrets, *manifest.packages, *manifest.marbles)
        self._resources = {name_in_leaf(name): name for name in resources}

    @property
    def needed(self) -> int:
        """The number of users who must agree to an update."""
        holders = self._permissions.holders(Action.UPDATE_MANIFEST)
        return self.manifest.config.update_threshold or len(holders)

    @property
    def origin(self) -> str:
        """The name of the log in the manifest, or ""."""
        transparency = self.manifest.config.transparency
        return "" if transparency is None else transparency.origin

    @property
    def must_sign(self) -> bool:
        """Whether users must sign their decisions."""
        transparency = self.manifest.config.transparency
        return transparency is not None and transparency.signed_approvals

    @property
    def versions(self) -> dict[str, int]:
        """The security versions of packages in the manifest, before any package update.

        Keys are the names of the packages in leaves.
        """
        packages = self.manifest.packages.items()
        return {
            name_in_leaf(name): each.security_version
            for name, each in packages
            if each.security_version is not None
        }

    @property
    def recovery(self) -> tuple[int, int]:
        """The number of holders, and the number of sufficient shares."""
        holders = len(self.manifest.recovery_keys)
        return holders, self.manifest.config.recovery_threshold or holders

    @property
    def marble_types(self) -> tuple[str, ...]:
        """The marble types, by their names in leaves."""
        return tuple(map(name_in_leaf, self.manifest.marbles))

    def security_version(self, package: str) -> int:
        """Return the security version of ``package`` in the manifest, before any package update.

        ``package`` is a name in leaves. Raises ``HistoryRefusedError`` if the manifest has no such
        package, or the package has no security version.
        """
        definition = self.manifest.packages.get(self._resources.get(package, ""))
        if definition is None or definition.security_version is None:
            raise HistoryRefusedError(
                f"the manifest has no package {quoted(package)} with a security version"
            )
        return definition.security_version

    def require_holders(self, names: Iterable[str]) -> None:
        """Require that the manifest has a recovery key for each of ``names``, names in leaves.

        Raises ``HistoryRefusedError``.
        """
        unknown = set(names) - set(map(name_in_leaf, self.manifest.recovery_keys))
        if unknown:
            raise HistoryRefusedError(f"the manifest has no recovery key {quoted(min(unknown))}")

    def require_user(self, user: str, certificate: str) -> bytes:
        """Return the certificate (DER) of ``user``, a name in leaves.

        ``certificate`` is the hash of the certificate in the leaf. Raises ``HistoryRefusedError``
        unless the manifest has this user with this certificate.
        """
        known = self._certificates.get((user, certificate))
        if known is None:
            raise HistoryRefusedError(
                f"the manifest in force has no user {quoted(user)} with this certificate"
            )
        return known

    def require_allowed(self, user: str, action: Action, resources: Iterable[str] = ()) -> None:
        """Require that ``user`` has the permission ``action`` on all ``resources``.

        ``user`` and ``resources`` are names in leaves; resources are secrets, packages or marble
        types. Positive results are cached, because logs have many uploads of the same secrets.
        Raises ``HistoryRefusedError``.
        """
        request = (user, action, tuple(resources))
        if request in self._allowed:
            return
        names = [self._resources.get(each, "") for each in request[2]]
        if "" in names or not self._permissions.allows(self._users[user], action, names):
            raise HistoryRefusedError(
                f"the user {quoted(user)} has no permission {action} for this change"
            )
        self._allowed.add(request)


@lru_cache(maxsize=16)
def members_of(raw: bytes) -> ManifestUsers:
    """Return users and holders of the manifest ``raw``, after the check that coordinators make.

    Raises ``HistoryRefusedError`` if no coordinator accepts the manifest.
    """
    try:
        return ManifestUsers(check(raw, now=_ANY_TIME).manifest)
    except InvalidError as invalid:
        first = f": {invalid.problems[0]}" if invalid.problems else ""
        raise HistoryRefusedError(
            f"the object {object_name(raw)} is not a manifest that a coordinator accepts{first}"
        ) from None


def verify_approval(certificate: bytes, raw: bytes, leaf: Decided) -> Approval:
    """Return the approval in ``raw``, signed for ``leaf`` by the key of ``certificate`` (DER).

    The function does not compare the approval's log, manifest in force and head. Raises
    ``LogInvalidError`` and ``HistoryRefusedError``.
    """
    signed = SignedApproval.read(raw)
    signed.verify(certificate)
    approval = signed.approval
    wanted = {"decision": _DECISIONS[type(leaf)], "user": leaf.user}
    if not isinstance(leaf, leaves.PackagesUpdatedLeaf):
        wanted["manifest"] = leaf.manifest
    if not isinstance(leaf, leaves.UpdateCancelledLeaf):
        wanted["plan"] = leaf.plan
    if any(getattr(approval, field) != value for field, value in wanted.items()):
        raise HistoryRefusedError(
            "the approval of the user states a different decision than the entry"
        )
    return approval


def require_head(
    approval: Approval, roots: Callable[[int], bytes], decided: int, size: int
) -> None:
    """Require that the head of ``approval`` is a head of this log. Raises ``HistoryRefusedError``.

    The head must have at least ``decided`` and at most ``size`` leaves. ``roots`` returns the root
    over a number of leaves.
    """
    if not decided <= approval.head.size <= size:
        raise HistoryRefusedError(
            f"the approval names a head of the log with {approval.head.size} entries; expected"
            f" {decided} to {size} entries"
        )
    if not hmac.compare_digest(roots(approval.head.size).hex(), approval.head.root):
        raise HistoryRefusedError(
            f"the approval names a head of {approval.head.size} entries with another root than this"
            " log has: the log was forked"
        )
