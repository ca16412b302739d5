"""What a manifest says of its secrets, for a list."""

import msgspec

from keyhouse.manifest import Action, Manifest
from keyhouse.wire.secret_types import SecretDefinition, SecretType


class DescribedSecret(msgspec.Struct, frozen=True):
    """A secret as the manifest defines it: where its value comes from, and users by name."""

    name: str
    type: str
    size: int  # in bits; 0: it has none
    value: str
    readers: tuple[str, ...]
    writers: tuple[str, ...]


def described_secrets(manifest: Manifest) -> tuple[DescribedSecret, ...]:
    """Return the secrets of ``manifest``, sorted by name."""
    may_read = _holders(manifest, Action.READ_SECRET)
    may_write = _holders(manifest, Action.WRITE_SECRET)
    return tuple(
        DescribedSecret(
            name,
            definition.type,
            definition.size,
            _origin(definition),
            may_read.get(name, ()),
            may_write.get(name, ()),
        )
        for name, definition in sorted(manifest.secrets.items())
    )


def _origin(definition: SecretDefinition) -> str:
    if definition.user_defined:
        return "uploaded" if definition.private is None else "in the manifest"
    if definition.shared:
        return "generated"
    return "derived" if definition.type is SecretType.SYMMETRIC_KEY else "issued"


def _holders(manifest: Manifest, action: Action) -> dict[str, tuple[str, ...]]:
    """Return the users who have ``action``, sorted, by name of the secret."""
    found: dict[str, set[str]] = {}
    for user, definition in manifest.users.items():
        for role in {name: manifest.roles[name] for name in definition.roles}.values():
            if action in role.actions:
                for name in role.resource_names:
                    found.setdefault(name, set()).add(user)
    return {name: tuple(sorted(users)) for name, users in found.items()}
