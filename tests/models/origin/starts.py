"""Starts of a coordinator on a real state, or on a state forged by the host."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from models.origin.proof import is_claimed, is_proven, may_recover
from models.origin.rules import Rules, Scene
from models.origin.world import (
    ADMITS_H,
    INVENTED_KEY,
    Copy,
    Line,
    Process,
    Seal,
    Settings,
    World,
    known_roots,
)


class Start(NamedTuple):
    """A serving process, and the way to its start."""

    text: str
    machine: int
    process: Process


def shown_copies(world: World, scene: Scene) -> Iterator[tuple[Copy, bool]]:
    """Yield all states shown by the host; True: the host can forge votes in the state.

    Only the host's own key, and sealed keys, matter for forged states: a forged state under any
    further key adds nothing.
    """
    roots, sealed = known_roots(world), {seal.key for seal in world.seals}
    for copy in world.written:
        yield copy, copy.root in roots and copy.key in world.known
    for root, key, line in product(roots, world.known, _lines(scene)):
        copy = Copy(root, line, key)
        if copy not in world.written and (key == INVENTED_KEY or key in sealed):
            yield copy, True


def starts(world: World, scene: Scene, rules: Rules) -> Iterator[Start]:
    """Yield every start on a shown state."""
    shown = list(shown_copies(world, scene))
    options = [False, True] if scene.adopts and rules.adoption != "none" else [False]
    for machine, (copy, forgeable), claim, adopts in product((0, 1), shown, scene.claims, options):
        opened = _adopted(copy, rules, adopts=adopts)
        if opened is None:
            continue
        for way, covered in _ways(world, scene, rules, machine, opened, Settings(claim, adopts)):
            votes = forgeable and scene.bad_user and not (rules.drops_votes and not covered)
            process = Process(opened, claim, adopts, votes)
            yield Start(_text(machine, way, process), machine, process)


def follows(world: World, scene: Scene, rules: Rules) -> Iterator[Start]:
    """Yield each running process after a followed epoch, real or forged."""
    if not scene.follows:
        return
    for machine, process in enumerate(world.processes):
        if process is None:
            continue
        for copy, _ in shown_copies(world, scene):
            before = process.copy
            told = copy.key in (before.key, *world.known) and before.key in world.known
            grew = copy.root == before.root and copy.line[: len(before.line)] == before.line
            genuine = grew and copy in world.written
            if rules.follows == "proven":
                is_ok = (genuine or told) and grew
                is_ok = is_ok and is_proven(world, scene, rules, copy, len(before.line))
            else:
                is_ok = genuine or told
            if is_ok and copy != before:
                following = process._replace(
                    copy=copy._replace(adopted=before.adopted), votes=False
                )
                yield Start(_text(machine, "follows", following), machine, following)


def _lines(scene: Scene) -> Iterator[Line]:
    for number in range(1, scene.longest + 1):
        yield from product(scene.manifests, repeat=number)


def _adopted(copy: Copy, rules: Rules, *, adopts: bool) -> Copy | None:
    """Return ``copy`` as accepted by a start with this option; None: refused."""
    if adopts:
        return copy._replace(adopted=True)
    if copy.adopted and rules.adoption == "kept":
        return None
    return copy._replace(adopted=False)


def _ways(
    world: World, scene: Scene, rules: Rules, machine: int, copy: Copy, settings: Settings
) -> Iterator[tuple[str, bool]]:
    """Yield the ways to open ``copy`` here; True: the way covers a pending update in ``copy``."""
    claim = settings.claim
    proven = settings.adopts or is_proven(world, scene, rules, copy)
    host_knows = copy.key in world.known
    if is_claimed(rules, claim, copy):
        for seal in world.seals:
            is_here = (seal.machine, seal.key) == (machine, copy.key)
            if is_here and _fits(world, scene, rules, seal, copy):
                yield "unseals", False
        if scene.host_signs and host_knows and (rules.seals_of_signer or proven):
            yield "unseals what the host's code sealed:", False
        yield from _joins(world, rules, machine, copy, settings)
        if host_knows and copy.line[-1] in ADMITS_H and (rules.giver == "journal" or proven):
            yield "is given by H the key of", False
    recovered = is_claimed(rules, claim, copy, is_recovery=True)
    if recovered and may_recover(world, scene, copy) and (not rules.origin or proven):
        yield "recovers", False


def _joins(
    world: World, rules: Rules, machine: int, copy: Copy, settings: Settings
) -> Iterator[tuple[str, bool]]:
    """Yield a join with the second coordinator, under the same measured settings."""
    other = world.processes[1 - machine]
    if other is None or Settings(other.claim, other.adopts) != settings:
        return
    if (other.copy.root, other.copy.key) != (copy.root, copy.key):
        return
    is_same = other.copy == copy
    grew = copy.line[: len(other.copy.line)] == other.copy.line
    if is_same or (rules.giver == "journal" and grew):
        yield "joins the other coordinator with", is_same


def _fits(world: World, scene: Scene, rules: Rules, seal: Seal, copy: Copy) -> bool:
    if rules.seal_binds == "key":
        return True
    same = (seal.root, seal.line) == (copy.root, copy.line[: len(seal.line)])
    if not same or (rules.adoption == "kept" and seal.adopted != copy.adopted):
        return False
    start = len(seal.line)
    return rules.seal_binds == "prefix" or is_proven(world, scene, rules, copy, start)


def _text(machine: int, way: str, process: Process) -> str:
    claim = f", claimed for {process.claim}" if process.claim else ""
    adopts = ", --adopt-root" if process.adopts else ""
    votes = ", votes forged" if process.votes else ""
    return f"{'AB'[machine]} {way} {process.copy}{claim}{adopts}{votes}"
