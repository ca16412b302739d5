"""Who a client is, and what it may do: exact certificates, exact names, deny by default."""

from collections.abc import Iterable

from keyhouse.manifest.model import Action, Manifest


class Permissions:
    """The users and roles of one manifest, prepared so that a question costs what it asks.

    Memory and preparation cost what the manifest's size is, however roles and users cross.
    """

    __slots__ = ("_granted", "_users")

    def __init__(self, manifest: Manifest) -> None:
        # By the exact bytes. Certificates are public: how long a look-up takes tells nothing, and
        # Python's hash of bytes is keyed, so certificates that collide cannot be constructed.
        self._users = {user.certificate: name for name, user in manifest.users.items()}
        names = {name: frozenset(role.resource_names) for name, role in manifest.roles.items()}
        self._granted: dict[str, dict[Action, list[frozenset[str]]]] = {}
        for user_name, user in manifest.users.items():
            granted = self._granted[user_name] = {}
            for role in dict.fromkeys(user.roles):
                for action in set(manifest.roles[role].actions):
                    granted.setdefault(action, []).append(names[role])

    def find_user(self, certificate: bytes) -> str | None:
        """Return the user with exactly this DER certificate: the leaf of the connection."""
        return self._users.get(certificate)

    def allows(self, user: str, action: Action, resources: Iterable[str] = ()) -> bool:
        """Tell whether ``user`` has ``action`` on every one of ``resources``.

        Without resources: whether the user has the action at all, which is the question for
        ``UpdateManifest``.
        """
        return action in self._granted.get(user, {}) and not self.refused(user, action, resources)

    def refused(self, user: str, action: Action, resources: Iterable[str]) -> tuple[str, ...]:
        """Return the names among ``resources`` on which ``user`` has no ``action``, sorted."""
        missing = set(resources)
        for names in self._granted.get(user, {}).get(action, ()):
            missing -= names
        return tuple(sorted(missing))

    def holders(self, action: Action) -> tuple[str, ...]:
        """Return the users who have ``action``, on whatever, sorted."""
        return tuple(sorted(name for name, granted in self._granted.items() if action in granted))
