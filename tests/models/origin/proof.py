"""The proofs for a coordinator."""

from models.origin.rules import Rules, Scene
from models.origin.world import ADMITS_H, HOST_HOLDS, OF_HOST, Copy, Process, World, known_roots


def is_proven(world: World, scene: Scene, rules: Rules, copy: Copy, start: int = 0) -> bool:
    """Return whether accepted code vouches for each manifest of ``copy`` after the first ``start``.

    H vouches for any manifest of the host, if an earlier manifest admits H.
    """
    if can_forge_quotes(scene, rules):
        return True
    if start == 0 and rules.origin and not _is_quoted(world, copy, 1):
        return False
    if not rules.steps:
        return True
    host_knows = copy.root in known_roots(world)
    for end in range(max(start, 1) + 1, len(copy.line) + 1):
        by_h = host_knows and not ADMITS_H.isdisjoint(copy.line[: end - 1])
        if not by_h and not _is_quoted(world, copy, end):
            return False
    return True


def can_forge_quotes(scene: Scene, rules: Rules) -> bool:
    """Return whether coordinators accept forged quotes of the host.

    The collateral of that time judges an outdated platform, unless the rules demand current
    collateral.
    """
    return scene.platform == "broken" or (scene.platform == "outdated" and rules.tcb == "then")


def is_claimed(rules: Rules, claim: str, copy: Copy, *, is_recovery: bool = False) -> bool:
    """Return whether a coordinator with the claim ``claim`` serves ``copy``; empty: no claim."""
    if not claim:
        return True
    if rules.claim_is_of == "first":
        return copy.line[0] == claim and not copy.adopted
    return not is_recovery or copy.line[-1] == claim


def may_recover(world: World, scene: Scene, copy: Copy) -> bool:
    """Return whether enough holders of the manifest in force recover ``copy``."""
    if copy.line[-1] in HOST_HOLDS:
        return copy.key in world.known
    return not scene.careful_holders or copy in world.written


def is_held(world: World, scene: Scene, process: Process) -> bool:
    """Return whether the manifest in force still lacks the cosignatures of witnesses."""
    root, line = process.copy.root, process.copy.line
    return scene.witnessed and line[-1] not in OF_HOST and (root, line) not in world.cosigned


def _is_quoted(world: World, copy: Copy, end: int) -> bool:
    return (copy.root, copy.line[:end], copy.adopted) in world.quoted
