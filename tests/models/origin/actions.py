"""Every possible action in a world, and the world after it."""

from collections.abc import Iterator
from itertools import product

from models.origin.proof import is_held
from models.origin.rules import Rules, Scene
from models.origin.starts import Start, follows, starts
from models.origin.world import (
    ADMITS_H,
    HOST_HOLDS,
    OF_HOST,
    Copy,
    Process,
    Seal,
    World,
    cosigned_line,
)

Action = tuple[str, World]


def actions(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    """Yield a text and the world after each action."""
    yield from _beginnings(world, scene, rules)
    for machine, process in enumerate(world.processes):
        if process is not None:
            yield from _updates(world, scene, rules, machine, process)
            yield from _leaks(world, scene, machine, process)
            yield from _cosignatures(world, scene, process)
            yield from _new_logs(world, scene, rules, machine, process)
    for start in (*starts(world, scene, rules), *follows(world, scene, rules)):
        if world.processes[start.machine] != start.process:
            yield start.text, _serving(world, start, rules)


def _beginnings(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    if world.roots >= scene.roots:
        return
    root, key = f"r{world.roots + 1}", world.next_key
    for machine, claim, first in product((0, 1), scene.claims, scene.manifests):
        if claim in ("", first):
            process = Process(Copy(root, (first,), key), claim)
            text = f"{'AB'[machine]} begins {root} with {first}{', as claimed' if claim else ''}"
            new = _serving(world, Start(text, machine, process), rules, is_made=True)
            leaks = {key} if first in HOST_HOLDS else set()
            known = world.known | leaks
            yield text, new._replace(roots=world.roots + 1, next_key=key + 1, known=known)


def _updates(
    world: World, scene: Scene, rules: Rules, machine: int, process: Process
) -> Iterator[Action]:
    copy = process.copy
    last = copy.line[-1]
    if len(copy.line) >= scene.longest or is_held(world, scene, process):
        return
    for new in scene.manifests:
        agree = last in OF_HOST or (last, new) in scene.agreed
        if new == last or not (agree or (process.votes and last == "T")):
            continue
        renews = (new in HOST_HOLDS) != (last in HOST_HOLDS) or (
            last in ADMITS_H and new not in ADMITS_H
        )
        key = world.next_key if renews else copy.key
        after = process._replace(copy=copy._replace(line=(*copy.line, new), key=key), votes=False)
        text = f"at {'AB'[machine]} users {'agree' if agree else 'seem to agree'} to {new}"
        told = _serving(world, Start(text, machine, after), rules, is_made=True)
        at_once = new in HOST_HOLDS and not (scene.witnessed and rules.holds_shares)
        yield (
            text,
            told._replace(
                known=world.known | ({key} if at_once else set()),
                next_key=world.next_key + renews,
            ),
        )


def _leaks(world: World, scene: Scene, machine: int, process: Process) -> Iterator[Action]:
    """Yield that the host learns a data key, as the manifest in force permits."""
    last, key = process.copy.line[-1], process.copy.key
    if key in world.known or is_held(world, scene, process):
        return
    if last in ADMITS_H or last in HOST_HOLDS:
        how = "hands the data key to H" if last in ADMITS_H else "writes the share for the host"
        yield f"{'AB'[machine]} {how}", world._replace(known=world.known | {key})


def _cosignatures(world: World, scene: Scene, process: Process) -> Iterator[Action]:
    root, line = process.copy.root, process.copy.line
    seen = cosigned_line(world, root)
    if scene.witnessed and seen != line and line[: len(seen)] == seen:
        rest = frozenset(each for each in world.cosigned if each[0] != root)
        text = f"witnesses cosign {root} {'>'.join(line)}"
        yield text, world._replace(cosigned=rest | {(root, line)})


def _new_logs(
    world: World, scene: Scene, rules: Rules, machine: int, process: Process
) -> Iterator[Action]:
    """Yield a start with ``--begin-new-log``; it must not cut the line."""
    copy = process.copy
    if not scene.new_logs or rules.new_log == "kept" or len(copy.line) == 1:
        return
    after = process._replace(copy=copy._replace(line=copy.line[-1:]))
    text = f"{'AB'[machine]} begins a new log of {copy}"
    yield text, _serving(world, Start(text, machine, after), rules, is_made=True)


def _serving(world: World, start: Start, rules: Rules, *, is_made: bool = False) -> World:
    """Return the world after the begin of the process's service.

    ``is_made``: the process made the root, or applied the last manifest; so it has a quote for the
    line. A process that adopts a root has quotes for all entries of the line.
    """
    machine, process = start.machine, start.process
    copy = process.copy
    both = list(world.processes)
    both[machine] = process
    seal = Seal(machine, copy.root, copy.line, copy.key, copy.adopted)
    if rules.seal_binds == "key":
        seal = Seal(machine, "", (), copy.key)
    quoted = world.quoted
    if is_made:
        quoted |= {(copy.root, copy.line, copy.adopted)}
    if process.adopts:
        quoted |= {(copy.root, copy.line[:end], True) for end in range(1, len(copy.line) + 1)}
    return world._replace(
        processes=(both[0], both[1]),
        written=world.written | ({copy} if is_made or process.adopts else set()),
        seals=world.seals if _is_covered(world, seal) else world.seals | {seal},
        quoted=quoted,
    )


def _is_covered(world: World, seal: Seal) -> bool:
    """Return whether a seal with a shorter line admits all copies admitted by ``seal``."""
    return any(
        (each.machine, each.root, each.key, each.adopted)
        == (seal.machine, seal.root, seal.key, seal.adopted)
        and seal.line[: len(each.line)] == each.line
        for each in world.seals
    )
