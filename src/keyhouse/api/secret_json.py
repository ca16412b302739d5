"""A secret as ``GET /api/v2/secrets`` shows it: the one place where values leave for a user.

Lower-camel names; what a type does not have is left out; ``private`` and ``public`` are always
there, null while a user-defined secret was not uploaded. Source: wire reference, GET secrets.
"""

from base64 import b64encode

from keyhouse.api.exchange import Head
from keyhouse.api.query import values
from keyhouse.authority import StoredSecret
from keyhouse.base.errors import BadRequest
from keyhouse.base.secret import Secret
from keyhouse.coordinator import View, policy_of
from keyhouse.manifest import Action
from keyhouse.wire.definitions import SecretDefinition, SecretType

__all__ = ["read_named_secrets", "secret_json"]

DEFAULT_DAYS = 365
"""What ``validFor`` says of a generated certificate whose validity was not given."""


def secret_json(definition: SecretDefinition, value: StoredSecret | None) -> dict[str, object]:
    """Return the JSON object of a secret that the caller may read."""
    shown: dict[str, object] = {"type": definition.type.value}
    if definition.type is not SecretType.CERT_ED25519:
        shown["size"] = definition.size
    shown["shared"] = definition.shared
    shown["userDefined"] = definition.user_defined
    if definition.type.is_certificate:
        shown["cert"] = _text(value.cert) if value else None
        shown["validFor"] = _days(definition)
    shown["private"] = _revealed(value.private) if value else None
    shown["public"] = _revealed(value.public) if value else None
    return shown


def _days(definition: SecretDefinition) -> int:
    if definition.valid_for or definition.user_defined:
        return definition.valid_for
    not_after = definition.cert.not_after if definition.cert else ""
    return 0 if not_after else DEFAULT_DAYS


def _revealed(secret: Secret) -> str | None:
    return _text(secret.reveal())


def _text(data: bytes) -> str | None:
    return b64encode(data).decode("ascii") if data else None


def read_named_secrets(view: View, head: Head) -> dict[str, dict[str, object]]:
    """Return the secrets that the query names, if the caller may read every one of them.

    Raises:
        BadRequest: none is named. Unauthenticated, Forbidden: as the manifest says.
    """
    state = view.running
    names = dict.fromkeys(values(head.query, "s"))
    if not names or "" in names:
        raise BadRequest(
            "no secret is named",
            fields={"s": "is missing or empty"},
            hint=f"name each secret: {head.path}?s=one&s=two",
        )
    policy = policy_of(state.manifest)
    policy.authorize(head.identity, Action.READ_SECRET, names)
    definitions = policy.manifest.secrets
    return {name: secret_json(definitions[name], state.secrets.get(name)) for name in names}
