"""Changes of secrets and of their values: kept, renewed, lost, or not yet uploaded."""

from collections.abc import Iterator

from keyhouse.authority import is_generated_with_manifest
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core.policy import InForce
from keyhouse.coordinator.update.compare import as_text, change, differing, fields_that_differ
from keyhouse.coordinator.update.retained import equal_definitions, stays
from keyhouse.manifest import Manifest
from keyhouse.wire.plan import Effect, PlanChange
from keyhouse.wire.secret_types import SecretDefinition, SecretType

_SECRETS = "Secrets"
_OF_VALUES = frozenset({"Private", "Public"})
_OF_TEMPLATES = frozenset({"Cert", "CertDer"})


def kept_secrets(old: Manifest, new: Manifest) -> tuple[str, ...]:
    """Return the sorted names of secrets whose stored value or rule of derivation stays equal."""
    rotates = new.config.rotate_root_secret
    return tuple(
        name
        for name, definition in sorted(new.secrets.items())
        if stays(old.secrets.get(name), definition, rotates=rotates)
    )


def upload_may_be_lost(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield each user-defined secret with a changed or removed definition: it loses its value."""
    for name, definition in sorted(old.secrets.items()):
        becomes = new.secrets.get(name)
        if definition.user_defined and not (becomes and equal_definitions(definition, becomes)):
            yield name


def secret_changes(state: InForce, old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the changed definitions, and the effects on values."""
    for name, before, after in differing(old.secrets, new.secrets):
        if before is None and after is not None:
            yield from _added(name, after)
        elif before is not None and after is None:
            text = f"secret {quoted(name)} is removed"
            yield change(_SECRETS, Effect.SECRET_REMOVED, name, text)
            yield from _lost(state, name)
        elif before is not None and after is not None:
            yield from _redefined(state, name, before, after)
    if new.config.rotate_root_secret:
        yield from _rotated(old, new)


def _added(name: str, definition: SecretDefinition) -> Iterator[PlanChange]:
    origin, text = _origin(definition)
    text = f"secret {quoted(name)} is added: {text}"
    yield change(_SECRETS, Effect.SECRET_ADDED, name, text, after=origin)


def _origin(definition: SecretDefinition) -> tuple[str, str]:
    """Return the source of the value of a new secret, as a keyword and as text."""
    if definition.user_defined:
        if definition.private is not None:
            return "given", "its value is in the manifest, for everybody to read"
        return "uploaded", "it is empty until a user uploads it"
    if definition.shared:
        return "generated", "it is generated now"
    if definition.type is SecretType.SYMMETRIC_KEY:
        return "derived", "it is derived for each workload"
    return "issued", "each workload gets its own, new at each activation"


def _redefined(
    state: InForce, name: str, before: SecretDefinition, after: SecretDefinition
) -> Iterator[PlanChange]:
    equal = equal_definitions(before, after)
    for field, was, becomes in fields_that_differ(before, after):
        if field in _OF_VALUES or (field in _OF_TEMPLATES and after.user_defined):
            yield _given(name, "Cert" if field in _OF_TEMPLATES else field, equal=equal)
        else:
            yield _field(name, field, was, becomes)
    if equal:
        return
    yield from _lost(state, name)
    if not after.user_defined:
        if after.shared:
            text = f"secret {quoted(name)} gets a new value, which is its previous one, too"
            yield change(_SECRETS, Effect.VALUE_GENERATED, name, text)
        elif after.type is SecretType.SYMMETRIC_KEY:
            text = f"secret {quoted(name)} is derived in another way for each workload"
            yield change(_SECRETS, Effect.VALUE_GENERATED, name, text)
    elif after.private is not None:
        text = f"secret {quoted(name)} gets the value in the manifest, for everybody to read"
        yield change(_SECRETS, Effect.VALUE_GIVEN, name, text)
    else:
        text = f"secret {quoted(name)} is empty until a user uploads it"
        yield change(_SECRETS, Effect.VALUE_NEEDED, name, text)


def _given(name: str, field: str, *, equal: bool) -> PlanChange:
    """Return the change of the value that the manifest gives to the secret ``name``.

    The change does not contain the value. ``field``: the name of the field in the manifest.
    ``equal``: True if the definition is equal otherwise, so the secret keeps its present value.
    """
    text = f"secret {quoted(name)}: {field} in the manifest differs"
    if equal:
        text += "; a secret that stays keeps what it has, and does not take it"
    return change(_SECRETS, Effect.SECRET_CHANGED, name, text, field=field)


def _field(name: str, field: str, was: object, becomes: object) -> PlanChange:
    """Return the change of ``field`` of the secret ``name``.

    For the template of a certificate, the change does not state the values.
    """
    if field in _OF_TEMPLATES:
        text = f"secret {quoted(name)}: its certificate is made from another template"
        return change(_SECRETS, Effect.SECRET_CHANGED, name, text, field="Cert")
    text = f"secret {quoted(name)}: {field} from {as_text(was)} to {as_text(becomes)}"
    return change(
        _SECRETS, Effect.SECRET_CHANGED, name, text, field=field, before=was, after=becomes
    )


def _lost(state: InForce, name: str) -> Iterator[PlanChange]:
    if name in state.secrets:
        text = f"the value of secret {quoted(name)} is lost, its previous one as well"
        yield change(_SECRETS, Effect.VALUE_LOST, name, text)


def _rotated(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    for name, definition in sorted(new.secrets.items()):
        if definition.user_defined or definition.type is not SecretType.SYMMETRIC_KEY:
            continue
        if equal_definitions(old.secrets.get(name), definition):
            text = f"secret {quoted(name)} gets a new value; the old one becomes its previous one"
            yield change(_SECRETS, Effect.VALUE_REPLACED, name, text)


def certificate_renewals(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the shared certificates that are reissued with a new key."""
    for name, definition in sorted(new.secrets.items()):
        if not (is_generated_with_manifest(definition) and definition.type.is_certificate):
            continue
        if equal_definitions(old.secrets.get(name), definition):
            text = (
                f"certificate {quoted(name)} is issued again with a new key;"
                " the old one becomes its previous one"
            )
            yield change(_SECRETS, Effect.CERTIFICATE_RENEWED, name, text)


def certificates_of_packages(
    renewed: tuple[str, ...], ended: tuple[str, ...]
) -> Iterator[PlanChange]:
    """Yield the effects of a package update on shared certificates.

    ``renewed``: the names of certificates that the update issues again. ``ended``: the names of
    expired certificates, which the update does not issue again. The update does not change the
    previous values of secrets.
    """
    for name in renewed:
        text = f"certificate {quoted(name)} is issued again with a new key; the old one is gone"
        yield change(_SECRETS, Effect.CERTIFICATE_RENEWED, name, text)
    for name in ended:
        text = f"certificate {quoted(name)} stays as it is: it has ended, so none like it is issued"
        yield change(_SECRETS, Effect.CERTIFICATE_STAYS, name, text)
