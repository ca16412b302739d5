"""A secret in the form of ``GET /api/v2/secrets``: the only place where values go to a user.

Fields that a type does not have are left out. ``private`` and ``public`` are always present, and
null before the upload of a user-defined secret. Source: ``docs/reference/routes.md``, "Data of
version 2".
"""

import msgspec

from keyhouse.authority import StoredSecret
from keyhouse.base.errors import BadRequestError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import View, policy_of
from keyhouse.manifest import Action
from keyhouse.server.http.exchange import Head
from keyhouse.server.http.query import values
from keyhouse.wire.client_api import SecretObject, SecretsData
from keyhouse.wire.field_presence import LEFT_OUT, NULL
from keyhouse.wire.secret_types import SecretDefinition, SecretType

DEFAULT_DAYS = 365
"""The ``validFor`` of a generated certificate without a stated validity."""


def secret_object(definition: SecretDefinition, value: StoredSecret | None) -> SecretObject:
    """Return a secret in the form of the answer. The caller has checked the user's permission.

    ``value``: the stored secret, or None before the upload of a user-defined secret.
    """
    has_certificate = definition.type.is_certificate
    return SecretObject(
        type=definition.type.value,
        size=LEFT_OUT if definition.type is SecretType.CERT_ED25519 else definition.size,
        shared=definition.shared,
        user_defined=definition.user_defined,
        cert=((value and value.cert) or NULL) if has_certificate else LEFT_OUT,
        valid_for=_days(definition) if has_certificate else LEFT_OUT,
        private=value.private if value and len(value.private) else None,
        public=value.public if value and len(value.public) else None,
    )


def _days(definition: SecretDefinition) -> int:
    if definition.valid_for or definition.user_defined:
        return definition.valid_for
    not_after = definition.cert.not_after if definition.cert else ""
    return 0 if not_after else DEFAULT_DAYS


def encode_secrets(data: SecretsData | dict[str, SecretObject]) -> bytes:
    """Return ``data`` as JSON, with the values of the secrets in the clear."""
    return _ENCODER.encode(data)


def _revealed(value: object) -> bytes:
    assert isinstance(value, Secret)  # noqa: S101 msgspec knows how to encode all else
    return value.reveal()


_ENCODER = msgspec.json.Encoder(enc_hook=_revealed)


def read_named_secrets(view: View, head: Head) -> dict[str, SecretObject]:
    """Return the secrets that the parameters ``s`` of the query name.

    Raises: BadRequestError for a query without a secret; UnauthenticatedError and ForbiddenError if
    the manifest does not permit the user to read all of them.
    """
    names = dict.fromkeys(values(head.query, "s"))
    if not names or "" in names:
        raise BadRequestError(
            "the query names no secret",
            fields={"s": "is missing or empty"},
            hint=f"name each secret: {head.path}?s=one&s=two",
        )
    state = view.running
    policy = policy_of(state.manifest)
    policy.authorize(head.identity, Action.READ_SECRET, names)
    definitions, stored = policy.manifest.secrets, state.secrets
    return {name: secret_object(definitions[name], stored.get(name)) for name in names}
