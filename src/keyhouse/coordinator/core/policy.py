"""The rules of a manifest in a form for decisions: derived from its bytes and cached."""

import threading
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from keyhouse.authority import expiry
from keyhouse.base.errors import ForbiddenError, UnauthenticatedError
from keyhouse.base.printable import quoted
from keyhouse.manifest import (
    Action,
    Anchored,
    FeatureGate,
    Incoming,
    Manifest,
    MarbleDefinition,
    MarbleTemplates,
    Outgoing,
    Permissions,
    SealMode,
    ServeCondition,
    TemplateIndex,
    TemplateSource,
    Transparency,
    index_templates,
)
from keyhouse.wire.secret_types import SecretDefinition, SecretType

FEW = 4
"""Maximum of per-marble certificates for rendering on the event loop, which takes milliseconds.

An RSA key takes too long in any number.
"""

MANY = 200
"""Maximum of templates and secrets for rendering on the event loop."""


class InForce(Protocol):
    """The part of a running state that determines the effect of an update.

    The transparency log contains this part, too. So a reader of the log can derive the same effect.
    """

    @property
    def manifest(self) -> bytes:
        """The bytes of the manifest, as uploaded."""
        ...

    @property
    def security_versions(self) -> Mapping[str, int]:
        """The security versions that package updates raised, by package."""
        ...

    @property
    def secrets(self) -> Container[str]:
        """The names of secrets with a stored value."""
        ...

    @property
    def activations(self) -> Mapping[str, int]:
        """The number of activations of each marble type with a limit."""
        ...


class Recipe(msgspec.Struct, frozen=True):
    """The parameters of a marble type, and the secrets for them.

    An activation renders these parameters, and makes no further secrets.
    """

    marble_type: str
    marble: MarbleDefinition
    templates: MarbleTemplates
    secrets: dict[str, SecretDefinition]  # by name; used by templates and TLS tags
    previous: dict[str, SecretDefinition]  # by name; templates use the previous values
    incoming: tuple[Incoming, ...]  # of all its TLS tags
    outgoing: tuple[Outgoing, ...]
    is_costly: bool  # too slow for the event loop


def recipe_of(manifest: Manifest, templates: TemplateIndex, marble_type: str) -> Recipe:
    """Return the recipe of ``marble_type`` in ``manifest`` with its ``templates``."""
    marble, own = manifest.marbles[marble_type], templates.marbles[marble_type]
    tags = [manifest.tls[name] for name in marble.tls]
    incoming = tuple(entry for tag in tags for entry in tag.incoming)
    served = {entry.cert for entry in incoming if entry.cert}
    secrets = sorted(own.names(TemplateSource.SECRETS) | served)
    previous = sorted(own.names(TemplateSource.PREVIOUS))
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
    certificates = list(_made_at_activation(used))
    return len(certificates) > FEW or SecretType.CERT_RSA in certificates or entries > MANY


def _made_at_activation(used: list[SecretDefinition]) -> Iterator[SecretType]:
    for definition in used:
        if definition.type.is_certificate and not (definition.shared or definition.user_defined):
            yield definition.type


class Policy:
    """A manifest in the form for decisions: its permissions, templates and recipes."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest: Final = manifest
        self.caveats: Final = tuple(_caveats(manifest))
        self.permissions: Final = Permissions(self.manifest)
        self.templates: Final = index_templates(self.manifest)
        self._recipes: dict[str, Recipe] = {}
        ends = (expiry(user.certificate) for user in manifest.users.values())
        self._user_ends = sorted(end for end in ends if end is not None)

    def expired_users(self, now: int) -> int:
        """Return the number of users whose certificate has expired at ``now``.

        ``now`` is in microseconds since 1970.
        """
        return bisect_left(self._user_ends, now // 1_000_000)

    def recipe(self, marble_type: str) -> Recipe | None:
        """Return the recipe for an activation of ``marble_type``, or None for an unknown type."""
        if marble_type not in self.manifest.marbles:
            return None
        known = self._recipes.get(marble_type)
        if known is None:
            known = recipe_of(self.manifest, self.templates, marble_type)
            self._recipes[marble_type] = known
        return known

    @property
    def seal_mode(self) -> SealMode:
        """The mode that determines which machines can unseal the stored state."""
        return self.manifest.config.seal_mode

    def has_gate(self, gate: FeatureGate) -> bool:
        """Return whether the manifest enables the feature ``gate``."""
        return gate in self.manifest.config.feature_gates

    def identify(self, identity: bytes | None) -> str:
        """Return the user whose certificate is exactly ``identity`` (DER of the leaf).

        Raises:
            UnauthenticatedError: no user has this certificate. A client without a certificate gets
                the same answer.
        """
        user = self.permissions.find_user(identity) if identity is not None else None
        if user is None:
            raise UnauthenticatedError(
                "no user of the manifest has this client certificate",
                hint="connect with the certificate and key of a user",
            )
        return user

    def authorize(self, identity: bytes | None, action: Action, names: Iterable[str]) -> str:
        """Return the name of the user with the certificate ``identity`` (DER).

        The user must have permission for ``action`` on each resource in ``names``.

        Raises:
            UnauthenticatedError: no user has this certificate. ForbiddenError: the permission is
                missing for a name; an unknown name gets the same answer.
        """
        user = self.identify(identity)
        self.require(user, action, names)
        return user

    def authorize_update(self, identity: bytes | None) -> str:
        """Return the name of the user with the certificate ``identity`` (DER).

        The user must have permission to update the whole manifest.

        Raises:
            UnauthenticatedError, ForbiddenError: as for ``authorize``.
        """
        user = self.identify(identity)
        if not self.permissions.allows(user, Action.UPDATE_MANIFEST):
            raise ForbiddenError(
                f"user {quoted(user)} has no permission UpdateManifest",
                hint="give the user a role of ResourceType Manifest with this action",
            )
        return user

    def require(self, user: str, action: Action, names: Iterable[str]) -> None:
        """Raise ``ForbiddenError`` unless ``user`` may do ``action`` on each of ``names``."""
        missing = self.permissions.refused(user, action, names)
        if missing:
            shown = ", ".join(quoted(name) for name in missing[:20])
            raise ForbiddenError(
                f"user {quoted(user)} has no permission {action} on: {shown}",
                hint="give the user a role with this action and these resource names",
            )


def _caveats(manifest: Manifest) -> Iterator[str]:
    """Yield a text for each part of ``manifest`` that nothing enforces, or a host can roll back.

    The status shows these texts, and the coordinator logs them.
    """
    if manifest.infrastructures:
        yield "nothing enforces Infrastructures"
    yield from _rollback_caveats(manifest)


def _rollback_caveats(manifest: Manifest) -> Iterator[str]:
    """Yield a text about the revocations, limits and counters that a host can roll back.

    The host rolls them back with an old disk. No text if ``manifest`` has none of them.
    """
    config = manifest.config
    transparency = config.transparency or Transparency()
    witnessed = transparency.serve == ServeCondition.WITNESSED
    anchored = transparency.anchor_before if witnessed else ()
    limits = any(marble.max_activations for marble in manifest.marbles.values())
    counters = FeatureGate.MONOTONIC_COUNTER in config.feature_gates
    names = []
    if manifest.is_living and Anchored.REVOCATIONS not in anchored:
        names.append("revocations")
    if limits and Anchored.LIMITED_ACTIVATIONS not in anchored:
        names.append("activation limits")
    if counters and Anchored.COUNTERS not in anchored:
        names.append("monotonic counters")
    if not names:
        return
    how_far = (
        " as far as the last anchor, unless AnchorBefore names them"
        if witnessed
        else ": only clients that remember where the journal stood notice"
    )
    *most, last = names
    listed = f"{', '.join(most)} and {last}" if most else last
    yield f"a host that restores an old disk rolls {listed} back{how_far}"


class _Cache:
    """The policies of a few manifests. Policies that nobody uses are dropped first.

    The cache has two generations. A full young generation becomes the old generation, and the
    former old generation is dropped. A use moves a policy to the young generation. Each request
    uses the manifest in force, so the policy of this manifest is never dropped.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._young: dict[bytes, Policy] = {}
        self._old: dict[bytes, Policy] = {}

    def get(self, raw: bytes) -> Policy | None:
        known = self._young.get(raw)
        if known is None and (known := self._old.get(raw)) is not None:
            self.put(known)
        return known

    def put(self, policy: Policy) -> None:
        with self._turn:
            if len(self._young) >= _GENERATION:
                self._old, self._young = self._young, {}
            self._young[policy.manifest.raw] = policy


def policy_of(raw: bytes) -> Policy:
    """Return the policy of the manifest ``raw``, cached for the manifests in use."""
    if (known := _POLICIES.get(raw)) is not None:
        return known
    from keyhouse.manifest import decode  # imported with the first manifest

    with _DECODING:  # two threads with the same manifest would each take twice as long
        return _POLICIES.get(raw) or remember_policy(decode(raw))


def remember_policy(manifest: Manifest) -> Policy:
    """Return the policy of a decoded manifest, and cache it for ``policy_of``.

    Threads may call this at the same time; the results are equal.
    """
    policy = Policy(manifest)
    _POLICIES.put(policy)
    return policy


def versions_in_force(state: InForce) -> dict[str, int | None]:
    """Return the SecurityVersion of each package now; None for a package without one."""
    packages = policy_of(state.manifest).manifest.packages
    return {
        name: state.security_versions.get(name, package.security_version)
        for name, package in packages.items()
    }


_GENERATION: Final = 3  # manifests: in force, pending, and in preparation
_POLICIES: Final = _Cache()
_DECODING: Final = threading.Lock()
