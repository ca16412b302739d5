"""What an activation of a marble type needs: computed once for a manifest, used by each one."""

from collections.abc import Iterator

import msgspec

from keyhouse.manifest import (
    Incoming,
    Manifest,
    Marble,
    MarbleTemplates,
    Outgoing,
    Source,
    TemplateIndex,
)
from keyhouse.wire.secret_types import SecretDefinition, SecretType

FEW = 4
"""Per-marble certificates, none of them RSA, that are made on the event loop in milliseconds."""

MANY = 200
"""Templates and secrets that are rendered on the event loop."""


class Recipe(msgspec.Struct, frozen=True):
    """The parameters of one marble type, and the secrets that they use. Nothing else is made."""

    marble_type: str
    marble: Marble
    templates: MarbleTemplates
    secrets: dict[str, SecretDefinition]  # read by templates and TLS tags, by name
    previous: dict[str, SecretDefinition]  # whose previous values templates read
    incoming: tuple[Incoming, ...]  # of all its TLS tags
    outgoing: tuple[Outgoing, ...]
    is_costly: bool  # too slow for the event loop


def recipe_of(manifest: Manifest, templates: TemplateIndex, marble_type: str) -> Recipe:
    """Return the recipe of a marble type of ``manifest``, whose templates are ``templates``."""
    marble, own = manifest.marbles[marble_type], templates.marbles[marble_type]
    tags = [manifest.tls[name] for name in marble.tls]
    incoming = tuple(entry for tag in tags for entry in tag.incoming)
    served = {entry.cert for entry in incoming if entry.cert}
    secrets = sorted(own.names(Source.SECRETS) | served)
    previous = sorted(own.names(Source.PREVIOUS))
    used = [manifest.secrets[name] for name in (*secrets, *previous)]
    return Recipe(
        marble_type=marble_type,
        marble=marble,
        templates=own,
        secrets={name: manifest.secrets[name] for name in secrets},
        previous={name: manifest.secrets[name] for name in previous},
        incoming=incoming,
        outgoing=tuple(entry for tag in tags for entry in tag.outgoing),
        is_costly=_is_costly(used, len(own.files) + len(own.env) + len(used)),
    )


def _is_costly(used: list[SecretDefinition], entries: int) -> bool:
    made = list(_made_each_time(used))
    return len(made) > FEW or SecretType.CERT_RSA in made or entries > MANY


def _made_each_time(used: list[SecretDefinition]) -> Iterator[SecretType]:
    for definition in used:
        if definition.type.is_certificate and not (definition.shared or definition.user_defined):
            yield definition.type
