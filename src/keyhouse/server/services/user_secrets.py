"""Reads of secrets by users."""

from collections.abc import Collection

from keyhouse.authority import StoredSecret
from keyhouse.coordinator import View, policy_of
from keyhouse.manifest import Action
from keyhouse.wire.secret_types import SecretDefinition


def read_secrets(
    view: View, identity: bytes | None, names: Collection[str]
) -> dict[str, tuple[SecretDefinition, StoredSecret | None]]:
    """Return the definitions of the secrets, and their values; None before an upload.

    Raises ``UnauthenticatedError`` or ``ForbiddenError`` unless the caller may read all of them.
    """
    state = view.running
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.READ_SECRET, names)
    definitions = policy.manifest.secrets
    return {name: (definitions[name], state.secrets.get(name)) for name in names}
