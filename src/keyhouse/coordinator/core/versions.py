"""The SecurityVersion of each package, as package updates have raised it."""

from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running

__all__ = ["versions_in_force"]


def versions_in_force(state: Running) -> dict[str, int | None]:
    """Return the SecurityVersion that each package has now; None for those without one."""
    packages = policy_of(state.manifest).manifest.packages
    return {
        name: state.security_versions.get(name, package.security_version)
        for name, package in packages.items()
    }
