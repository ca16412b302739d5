"""The facts of a state that a plan depends on: while they are equal, the plan is the same.

Small and cheap to compare, because they are compared again when the update is decided.
"""

from collections.abc import Iterable

import msgspec
from immutables import Map

from keyhouse.coordinator.core.state import Running


class PlanBasis(msgspec.Struct, frozen=True):
    """Facts of a state. Uploads and activations that do not affect the plan are left out."""

    manifest: bytes  # in force
    versions: Map[str, int]  # raised by package updates
    uploads: tuple[tuple[str, bool], ...]  # names whose value would be lost, and if there is one
    limits: tuple[tuple[str, int, bool], ...]  # types with a new limit, and if it is reached


def basis_of(
    state: Running, uploads: Iterable[str] = (), limits: Iterable[tuple[str, int]] = ()
) -> PlanBasis:
    """Return the facts of ``state`` about these secrets, and these marble types with limits."""
    return PlanBasis(
        manifest=state.manifest,
        versions=state.security_versions,
        uploads=tuple((name, name in state.secrets) for name in uploads),
        limits=tuple(
            (name, limit, state.activations.get(name, 0) >= limit) for name, limit in limits
        ),
    )


def still_holds(state: Running, basis: PlanBasis | None) -> bool:
    """Tell whether a plan with ``basis`` is still the plan for ``state``. None (no plan): True."""
    if basis is None:
        return True
    uploads = (name for name, _ in basis.uploads)
    limits = ((name, limit) for name, limit, _ in basis.limits)
    return basis == basis_of(state, uploads, limits)
