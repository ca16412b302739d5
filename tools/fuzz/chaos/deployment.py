"""The manifests of a run: secrets to write, types with a limit, and two users for updates."""

from typing import Any, Final

from support.samples.updates import together

from keyhouse.manifest import fingerprint

__all__ = ["FIRST_VERSION", "LIMIT", "REGISTERS", "chaos_manifest", "fingerprint", "probed"]

REGISTERS: Final = tuple(f"s{number}" for number in range(4))
LIMIT: Final = 8
"""Permitted activations of each type ``limit0``, ``limit1``, ...."""
FIRST_VERSION: Final = 3
_HOLDERS: Final = 6
"""Number of recovery keys. A manifest has one of them; a new recovery key means a new data key."""


def probed(machine: int) -> str:
    """Return the name of the secret for the write probe at ``machine``."""
    return f"probe{machine}"


def chaos_manifest(
    machines: int, types: int, *, number: int = 0, holder: int = 0, version: int = FIRST_VERSION
) -> bytes:
    """Return a manifest that ``alice`` and ``bob`` update together.

    Args:
        machines: the number of write probes.
        types: the number of types with a limit.
        number: a number in the manifest, so manifests differ.
        holder: chooses the recovery key.
        version: the security version of ``app``.
    """
    names = [*REGISTERS, *map(probed, range(machines))]

    def change(document: dict[str, Any]) -> None:
        document["Secrets"] |= {name: {"Type": "plain", "UserDefined": True} for name in names}
        document["Roles"]["write"]["ResourceNames"] = names
        document["Packages"]["app"]["SecurityVersion"] = version
        limited = {"Package": "app", "MaxActivations": LIMIT}
        document["Marbles"] |= {f"limit{which}": limited for which in range(types)}

    return together(
        change,
        updaters=["alice", "bob"],
        holders=[f"holder{holder % _HOLDERS}"],
        word=f"number {number}",
        UpdateThreshold=2,
        SealMode="UniqueKey",
        Replicas={},
        FeatureGates=["MonotonicCounter"],
    )
