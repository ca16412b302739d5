"""Identity and permissions of clients: exact certificates, exact names, deny by default."""

from collections.abc import Iterable

from keyhouse.manifest.model import Action, Manifest


class Permissions:
    """The permissions of a manifest's users, prepared for fast answers about a user.

    Users with the same role refer to the same set of resource names. So memory and preparation grow
    with the size of the manifest. The time of an answer depends on the requested names, and on the
    roles of this user.
    """

    __slots__ = ("_granted", "_users")

    def __init__(self, manifest: Manifest) -> None:
        # Keys are the exact bytes. Certificates are public, so the time of a look-up reveals
        # nothing. Python's hash of bytes is keyed, so nobody can construct colliding certificates.
        self._users = {user.certificate: name for name, user in manifest.users.items()}
        names = {name: frozenset(role.resource_names) for name, role in manifest.roles.items()}
        self._granted: dict[str, dict[Action, list[frozenset[str]]]] = {}
        for user_name, user in manifest.users.items():
            granted = self._granted[user_name] = {}
            for role in dict.fromkeys(user.roles):
                for action in set(manifest.roles[role].actions):
                    granted.setdefault(action, []).append(names[role])

    def find_user(self, certificate: bytes) -> str | None:
        """Return the name of the user with exactly this certificate (DER), or None.

        ``certificate``: the leaf certificate of the client's connection.
        """
        return self._users.get(certificate)

    def allows(self, user: str, action: Action, resources: Iterable[str] = ()) -> bool:
        """Return whether ``user`` has the permission for ``action`` on each of ``resources``.

        Without resources, return whether a role of the user permits the action at all. Callers
        check ``UpdateManifest`` in this way, because this action has no resource names.
        """
        return action in self._granted.get(user, {}) and not self.refused(user, action, resources)

    def refused(self, user: str, action: Action, resources: Iterable[str]) -> tuple[str, ...]:
        """Return the names in ``resources`` for which ``user`` lacks ``action``, sorted."""
        missing = set(resources)
        for names in self._granted.get(user, {}).get(action, ()):
            missing -= names
        return tuple(sorted(missing))

    def holders(self, action: Action) -> tuple[str, ...]:
        """Return the names of users with a role that permits ``action``, sorted."""
        return tuple(sorted(name for name, granted in self._granted.items() if action in granted))
