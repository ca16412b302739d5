"""What a manifest means for decisions: derived from its bytes, kept for the few in use."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from keyhouse.manifest import Action, Manifest, Permissions, TemplateIndex, User, decode
from keyhouse.wire.errors import Forbidden, Unauthenticated

__all__ = ["DISABLED", "Policy", "policy_of"]

DISABLED: Final = "Disabled"
"""The seal mode that keeps nothing on disk."""


class Policy:
    """Users, permissions, secret definitions and template readers of one manifest."""

    def __init__(self, raw: bytes) -> None:
        self.manifest: Final[Manifest] = decode(raw)
        self.permissions: Final = Permissions(self.manifest)
        self.templates: Final = TemplateIndex(self.manifest)

    @property
    def seal_mode(self) -> str:
        """``ProductKey``, ``UniqueKey`` or ``Disabled``: never empty."""
        return self.manifest.config.seal_mode or "ProductKey"

    def has_gate(self, gate: str) -> bool:
        """Return whether the manifest enables the feature ``gate``."""
        wanted = gate.lower()
        return any(name.lower() == wanted for name in self.manifest.config.feature_gates)

    def identify(self, identity: bytes | None) -> User:
        """Return the user whose certificate is exactly ``identity`` (DER of the leaf).

        Raises:
            Unauthenticated: there is none. A client without certificate gets the same answer.
        """
        user = self.permissions.find(identity) if identity is not None else None
        if user is None:
            raise Unauthenticated(
                "no user of the manifest has this client certificate",
                hint="connect with the certificate and key of a user",
            )
        return user

    def authorize(self, identity: bytes | None, action: Action, names: Iterable[str]) -> User:
        """Return the user if it may do ``action`` on every one of ``names``.

        Raises:
            Unauthenticated: nobody has this certificate.
            Forbidden: the permission is missing on some; unknown names look the same.
        """
        user = self.identify(identity)
        missing = self.permissions.missing(user.name, action, names)
        if missing:
            shown = ", ".join(sorted(missing)[:20])
            raise Forbidden(
                f"user {user.name} has no permission {action} on: {shown}",
                hint="a role with this action and these resource names is needed",
            )
        return user


@lru_cache(maxsize=4)
def policy_of(raw: bytes) -> Policy:
    """Return the policy of the manifest ``raw``: of the last few, parsed once."""
    return Policy(raw)
