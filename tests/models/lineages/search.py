"""Search every reachable world, nearest first, for broken invariants."""

from collections import deque
from typing import NamedTuple

from models.lineages.actions import actions, beginning
from models.lineages.coordinator import first_state
from models.lineages.invariants import INVARIANTS
from models.lineages.rules import Rules, Scene
from models.lineages.world import FIRST, Site, World


class Result(NamedTuple):
    """The result of a search."""

    worlds: int
    actions: int
    traces: dict[str, tuple[str, ...]]  # by invariant: a shortest breaking sequence


def search(scene: Scene, rules: Rules, until: str = "") -> Result:
    """Return the broken invariants, by name. Stop when the invariant ``until`` is broken."""
    begin = beginning(Site.of("live", "T", FIRST, first_state()), scene)
    parents: dict[World, tuple[World, str] | None] = {begin: None}
    waiting, broken, tried = deque([(begin, 0)]), dict[str, World](), 0
    while waiting and until not in broken:
        world, depth = waiting.popleft()
        for invariant in INVARIANTS:
            if invariant.name not in broken and invariant.is_broken(world, rules):
                broken[invariant.name] = world
        if depth == scene.depth:
            continue
        for text, after in actions(world, scene, rules):
            tried += 1
            if after not in parents:
                parents[after] = (world, text)
                waiting.append((after, depth + 1))
    traces = {name: _trace(parents, world) for name, world in broken.items()}
    return Result(len(parents), tried, traces)


def _trace(parents: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    steps = list[str]()
    while (before := parents[world]) is not None:
        world, text = before
        steps.append(text)
    return tuple(reversed(steps))
