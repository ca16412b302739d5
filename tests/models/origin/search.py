"""Search every reachable world, nearest first, for broken clients."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from models.origin.actions import actions
from models.origin.clients import Client, is_broken
from models.origin.rules import Rules, Scene
from models.origin.world import Process, Seal, World

Parents = dict[World, tuple[World, str] | None]


class Found(NamedTuple):
    """The result of a search."""

    states: int
    depth: int  # actions of the longest tried sequence
    is_complete: bool  # more actions lead to no new worlds
    traces: dict[Client, tuple[str, ...]]  # a shortest breaking sequence for each client


def search(scene: Scene, rules: Rules, goal: str, clients: Sequence[Client]) -> Found:
    """Search for attacks on ``clients`` with ``goal`` in force; stop when all are broken."""
    parents: Parents = {World(): None}
    waiting, broken, deepest, is_cut = deque([(World(), 0)]), dict[Client, World](), 0, False
    while waiting and len(broken) < len(clients):
        world, depth = waiting.popleft()
        deepest = max(deepest, depth)
        for client in clients:
            if client not in broken and any(
                is_broken(client, world, each, goal) for each in world.processes if each
            ):
                broken[client] = world
        if depth == scene.depth:
            is_cut = True
            continue
        for text, after in actions(world, scene, rules):
            if after not in parents and _mirrored(after) not in parents:
                parents[after] = (world, text)
                waiting.append((after, depth + 1))
    traces = {client: _trace(parents, world) for client, world in broken.items()}
    return Found(len(parents), deepest, not (waiting or is_cut), traces)


def _mirrored(world: World) -> World:
    """Return ``world`` with A and B exchanged: it has the same possible actions."""
    first, second = world.processes
    processes: tuple[Process | None, Process | None] = (second, first)
    seals = frozenset[Seal](each._replace(machine=1 - each.machine) for each in world.seals)
    return world._replace(processes=processes, seals=seals)


def _trace(parents: Parents, world: World) -> tuple[str, ...]:
    steps = list[str]()
    while (before := parents[world]) is not None:
        world, text = before
        steps.append(text)
    return tuple(reversed(steps))
