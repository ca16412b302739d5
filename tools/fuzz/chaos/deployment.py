"""The manifests of a run: secrets to write, types with a limit, and two users who update."""

from typing import Any, Final

from support.samples.updates import together

from keyhouse.manifest import fingerprint

__all__ = ["FIRST_VERSION", "LIMIT", "REGISTERS", "chaos_manifest", "fingerprint", "probed"]

REGISTERS: Final = tuple(f"s{number}" for number in range(4))
LIMIT: Final = 8
"""Activations of each type ``limit0`` ...."""
FIRST_VERSION: Final = 3
_HOLDERS: Final = 6
"""Recovery keys, of which each manifest has one: another one means a new data key."""


def probed(machine: int) -> str:
    """Return the secret that the write probe at ``machine`` writes."""
    return f"probe{machine}"


def chaos_manifest(
    machines: int, types: int, *, number: int = 0, holder: int = 0, version: int = FIRST_VERSION
) -> bytes:
    """Return a manifest; another ``number`` makes it differ, another ``holder`` its recovery key.

    ``alice`` and ``bob`` update it together. ``version``: the security version of ``app``.
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
