"""Who a client is, and what it may do: exact certificates, exact names, deny by default."""

import hashlib
import hmac
from collections.abc import Iterable

from keyhouse.manifest.model import Action, Manifest

__all__ = ["Permissions"]


class Permissions:
    """The users and roles of one manifest, prepared so that a question costs what it asks.

    Users with the same roles share their sets of names.
    """

    __slots__ = ("_granted", "_users")

    def __init__(self, manifest: Manifest) -> None:
        self._users = {
            hashlib.sha256(user.certificate).digest(): (name, user.certificate)
            for name, user in manifest.users.items()
        }
        shared: dict[frozenset[str], dict[Action, frozenset[str]]] = {}
        self._granted = {}
        for name, user in manifest.users.items():
            roles = frozenset(user.roles)
            if roles not in shared:
                shared[roles] = _union(manifest, roles)
            self._granted[name] = shared[roles]

    def find_user(self, certificate: bytes) -> str | None:
        """Return the user with exactly this DER certificate: the leaf of the connection."""
        name, known = self._users.get(hashlib.sha256(certificate).digest(), (None, b""))
        return name if hmac.compare_digest(known, certificate) else None

    def allows(self, user: str, action: Action, resources: Iterable[str] = ()) -> bool:
        """Tell whether ``user`` has ``action`` on every one of ``resources``.

        Without resources: whether the user has the action at all, which is the question for
        ``UpdateManifest``.
        """
        names = self._granted.get(user, {}).get(action)
        return names is not None and names.issuperset(resources)

    def refused(self, user: str, action: Action, resources: Iterable[str]) -> tuple[str, ...]:
        """Return the names among ``resources`` on which ``user`` has no ``action``, sorted."""
        names = self._granted.get(user, {}).get(action, frozenset())
        return tuple(sorted(set(resources) - names))

    def holders(self, action: Action) -> tuple[str, ...]:
        """Return the users who have ``action``, on whatever, sorted."""
        return tuple(sorted(name for name, granted in self._granted.items() if action in granted))


def _union(manifest: Manifest, roles: frozenset[str]) -> dict[Action, frozenset[str]]:
    granted: dict[Action, set[str]] = {}
    for role in (manifest.roles[name] for name in roles):
        for action in role.actions:
            granted.setdefault(action, set()).update(role.resource_names)
    return {action: frozenset(names) for action, names in granted.items()}
