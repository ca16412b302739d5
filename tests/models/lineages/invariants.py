"""The invariants: sentences about each world, and a check for each sentence."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from models.lineages.coordinator import (
    activated,
    counts,
    lineage_in,
    may_prove,
    peers_accept,
    reads,
    renews,
)
from models.lineages.rules import Rules
from models.lineages.world import Cert, Holder, Site, World, hash_of


class Invariant(NamedTuple):
    """A sentence that holds in each world of the product."""

    name: str
    text: str
    is_broken: Callable[[World, Rules], bool]


def _unproven_key_reads(world: World, rules: Rules) -> bool:
    return any((cert.key, cert.root) not in world.proven for cert in _readers(world, rules))


def _ended_key_reads(world: World, rules: Rules) -> bool:
    return any(cert.key in world.ended for cert in _served(world, rules))


def _two_continue(world: World, rules: Rules) -> bool:
    if not world.t.certs or not world.w.certs:
        return False
    own, stolen = world.w.certs[-1], world.t.certs[-1]
    lineage = lineage_in(world.live, own.lineage)
    if lineage is None or own.lineage != stolen.lineage:
        return False
    if lineage.key == hash_of(own.key) == hash_of(stolen.key):
        return False  # neither has renewed yet
    return all(
        renews(world.live, holder, cert, world.now, rules)
        for holder, cert in ((world.w, own), (world.t, stolen))
    )


def _is_locked_out(world: World, rules: Rules) -> bool:
    """Return whether W can neither renew nor, after a restore, activate."""
    w = world.w
    if not w.certs or world.rivals or world.revoked or w.machine in world.machines:
        return False
    if not may_prove(world.live, w, rules) or renews(world.live, w, w.certs[-1], world.now, rules):
        return False
    return not world.restored or activated(world.live, w, world.now, rules) is None


def _revoked_workload_continues(world: World, rules: Rules) -> bool:
    if any(cert.lineage in world.revoked for cert in _served(world, rules)):
        return True
    if any(
        holder.machine in world.machines
        and activated(world.live, holder, world.now, rules) is not None
        for holder in world.holders
    ):
        return True
    # W could also move to a revoked machine.
    moved = (world.w._replace(machine=machine) for machine in world.machines)
    on_revoked = ((holder, cert) for holder in moved for cert in holder.certs)
    of_revoked = (each for each in _held(world) if each[1].lineage in world.revoked)
    return any(
        renews(world.live, holder, cert, world.now, rules)
        for holder, cert in (*of_revoked, *on_revoked)
    )


def _doubted_key_reads(world: World, rules: Rules) -> bool:
    return any(cert.key in world.doubted for cert in _served(world, rules))


def _renewals_count(world: World, _: Rules) -> bool:
    return world.live.state.activations.get("web", 0) != world.activated


def _peers_accept_the_past(world: World, _: Rules) -> bool:
    """Return whether workloads accept an old certificate, or one of a dismissed replica."""
    if world.issued is None:
        return False
    return any(
        cert not in world.issued and peers_accept(world.live, cert, world.now)
        for _, cert in (*_held(world), *_forged(world))
    )


def _peers_accept_foreign_code(world: World, _: Rules) -> bool:
    if world.x.code != "evil" or world.wronged:
        return False
    return any(peers_accept(world.live, cert, world.now) for cert in world.x.certs)


def _dismissed_user_acts(world: World, _: Rules) -> bool:
    return world.wronged


def _held(world: World) -> Iterator[tuple[Holder, Cert]]:
    for holder in world.holders:
        for cert in holder.certs:
            yield holder, cert


def _forged(world: World) -> Iterator[tuple[Holder, Cert]]:
    """Yield forged certificates of a dismissed replica for the lineage of W."""
    for root in world.leaked:
        for cert in world.w.certs:
            yield world.t, cert._replace(root=root, key="of the replica", begin=world.now)


def _sites(world: World, rules: Rules) -> Iterator[Site]:
    """Yield the serving states."""
    yield world.live
    if world.behind is not None and not rules.gate:
        yield world.behind


# Several invariants need the certificates of the same world.
@lru_cache(maxsize=1)
def _readers(world: World, rules: Rules) -> frozenset[Cert]:
    """Return the certificates that read secrets."""
    return frozenset(_permitted(reads, world, rules))


@lru_cache(maxsize=1)
def _served(world: World, rules: Rules) -> frozenset[Cert]:
    """Return the certificates that read secrets or raise a counter."""
    return _readers(world, rules).union(_permitted(counts, world, rules))


def _permitted(
    check: Callable[[Site, Cert, int, Rules], bool], world: World, rules: Rules
) -> Iterator[Cert]:
    certs = [cert for _, cert in (*_held(world), *_forged(world))]
    for site in _sites(world, rules):
        for cert in certs:
            if check(site, cert, world.now, rules):
                yield cert


PROVEN, ENDED, ONE, HONEST, REVOKED, DOUBTED, COUNT, CUT, FOREIGN, DISMISSED = INVARIANTS = (
    Invariant(
        "proven",
        "a key reads secrets only after its own renewal, with evidence, under the root in force",
        _unproven_key_reads,
    ),
    Invariant(
        "ended",
        "a key reads no secrets and raises no counter after its workload has renewed",
        _ended_key_reads,
    ),
    Invariant("one", "of two holders of a lineage at most one continues", _two_continue),
    Invariant(
        "honest",
        "lost answers, updates, the end of a certificate and a restore lock no workload out",
        _is_locked_out,
    ),
    Invariant(
        "revoked",
        "a revoked workload does not continue, and nobody joins or renews on a revoked machine",
        _revoked_workload_continues,
    ),
    Invariant(
        "doubted",
        "after the revocation of a type, no key of before reads secrets or raises a counter",
        _doubted_key_reads,
    ),
    Invariant("count", "only an activation counts as an activation", _renewals_count),
    Invariant(
        "cut",
        "after an update that takes trust away, workloads accept no certificate of before",
        _peers_accept_the_past,
    ),
    Invariant(
        "foreign", "workloads accept no code that only a copy admitted", _peers_accept_foreign_code
    ),
    Invariant("dismissed", "a dismissed user changes nothing", _dismissed_user_acts),
)
"""All invariants."""
