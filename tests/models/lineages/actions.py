"""Every possible action in a world, and the world after it."""

from collections.abc import Iterator
from typing import Final

from support.samples.deployment import user

from keyhouse.coordinator.core import commands, events
from models.lineages.coordinator import (
    ADMITTED,
    activated,
    applied,
    decided,
    lineage_in,
    may_prove,
    renewal,
    renews,
    updated,
)
from models.lineages.rules import Rules, Scene
from models.lineages.world import LIFETIME, Cert, Holder, Site, World, hash_of, uuid_of

Action = tuple[str, World]

MACHINE: Final = b"machine of W"
OTHER: Final = b"machine of X"
_LEAST_TRUST: Final = frozenset("DSV")
"""Manifests that revoke trust: the former marble roots end with the update."""


def beginning(state: Site, scene: Scene) -> World:
    """Return the world before the first action."""
    thief = "v3" if scene.thief == "enclave" else ""
    return World(
        state,
        Holder("W", "v3", MACHINE),
        Holder("T", thief, MACHINE),
        Holder("X", scene.code, OTHER),
    )


def actions(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    """Yield a text and the world after each action."""
    yield from _of_w(world, scene, rules)
    yield from _of_thief(world, scene, rules)
    yield from _of_x(world, scene, rules)
    yield from _of_users(world, scene, rules)
    yield from _of_host(world, scene)
    if scene.ends and world.w.certs and world.now < world.w.certs[-1].end:
        yield "the certificate of W ends", world._replace(now=world.now + LIFETIME + 1_000_000)


def _of_w(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    w = world.w
    if not w.certs or (world.restored and not renews(world.live, w, w.certs[-1], world.now, rules)):
        if (made := activated(world.live, w, world.now, rules)) is not None:
            live, w = made
            after = world._replace(live=live, w=w, activated=world.activated + 1, rivals=False)
            yield "W activates", _issued(after, w.certs[-1])
        return
    yield from _renewed(world, "W", rules, is_lost=False)
    if scene.loses:
        yield from _renewed(world, "W", rules, is_lost=True)
    if not rules.needs_request:
        yield from _renewed(world, "W", rules, is_lost=False, is_empty=True)


def _of_thief(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    if not scene.thief:
        return
    if world.w.certs and not world.t.certs:
        yield "T copies the key of W", world._replace(t=world.t._replace(certs=world.w.certs))
    if world.t.certs:
        yield from _renewed(world, "T", rules, is_lost=False)


def _of_x(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    """Yield activations and renewals of X, at the copy and at the live deployment."""
    x = world.x
    if not scene.code:
        return
    for name in ("live", "copy"):
        site = world.live if name == "live" else world.copy
        if site is None:
            continue
        if not x.begun and (made := activated(site, x, world.now, rules)) is not None:
            site, holder = made
            after = world._replace(x=holder)
            after = after._replace(live=site) if name == "live" else after._replace(copy=site)
            # A copy of the present state can issue trusted certificates; the page of the channel
            # states this.
            if name == "live" or world.is_late_copy:
                after = _issued(after, holder.certs[-1])
            if name == "live":
                after = after._replace(activated=after.activated + 1)
            yield f"X activates at {name}", after
        elif x.certs and name == "live":
            yield from _renewed(world, "X", rules, is_lost=False)
        elif x.certs and renews(site, x, x.certs[-1], world.now, rules):
            renewed = _continued(site, site, x, world, rules)
            if renewed is None:
                continue
            site, new = renewed
            holder = x._replace(certs=(x.certs[-1], new), made=x.made + 1)
            after = world._replace(copy=site, x=holder)
            yield "X renews at copy", _issued(after, new) if world.is_late_copy else after


def _continued(
    site: Site, view: Site, holder: Holder, world: World, rules: Rules, *, is_empty: bool = False
) -> tuple[Site, Cert] | None:
    """Return ``site`` and the new certificate after a renewal prepared under ``view``."""
    cert, now = holder.certs[-1], world.now
    key = "no request" if is_empty else holder.flight
    new = cert._replace(root=view.root, key=key, begin=now, end=now + LIFETIME)
    command = renewal(view, cert, new, holder.machine)
    judge = site if rules.appends else view
    made = decided(judge.state, command, now, rules.renews)
    if made is None or not may_prove(view, holder, rules):
        return None
    if not rules.counts_once:
        counted = dict(site.state.activations.items())
        counts = {name: number + 1 for name, number in counted.items()}
        made = (*made, events.BaseActivations(counts))
    return applied(site, made), new


def _renewed(
    world: World, name: str, rules: Rules, *, is_lost: bool, is_empty: bool = False
) -> Iterator[Action]:
    """Yield the renewals of a certificate at live, prepared under the present or an old view."""
    holder: Holder = getattr(world, name.lower())
    for view, where in ((world.live, ""), (world.behind, ", prepared by the second replica")):
        if view is None or not holder.certs:
            continue
        made = _continued(world.live, view, holder, world, rules, is_empty=is_empty)
        if made is None:
            continue
        site, new = made
        cert = holder.certs[-1]
        before = lineage_in(world.live, cert.lineage)
        repeats = before is not None and hash_of(new.key) == before.key
        # A key that follows an ended key is as old as the ended key.
        ended = {cert.key}
        if cert.key in world.ended and not repeats:
            ended.add(new.key)
        has_evidence = holder.code in ADMITTED[view.manifest]
        after = world._replace(
            live=site,
            proven=world.proven | ({(new.key, new.root)} if has_evidence else set()),
            ended=world.ended | ended,
            rivals=world.rivals or (name != cert.workload),
        )
        after = _issued(after, new)
        if not is_lost and not is_empty:
            kept = holder._replace(certs=(cert, new), made=holder.made + 1)
            after = _with(after, kept)
        how = ", the answer is lost" if is_lost else " without a request" if is_empty else ""
        yield f"{name} renews{how}{where}", after


def _with(world: World, holder: Holder) -> World:
    match holder.name:
        case "W":
            return world._replace(w=holder)
        case "T":
            return world._replace(t=holder)
        case _:
            return world._replace(x=holder)


def _issued(world: World, cert: Cert) -> World:
    return world if world.issued is None else world._replace(issued=world.issued | {cert})


def _of_users(world: World, scene: Scene, rules: Rules) -> Iterator[Action]:
    for name in scene.updates:
        after = updated(world.live, "admin", name, world.now, rules)
        if after is not None:
            yield f"the administrator updates to {name}", _after_update(world, after)
    for name in scene.forged:
        if world.copy is not None:
            after = updated(world.copy, "mallory", name, world.now, rules)
            if after is not None:
                yield f"Mallory updates the copy to {name}", world._replace(copy=after)
        after = updated(world.live, "mallory", name, world.now, rules)
        if after is not None and world.dismissed:
            changed = world._replace(live=after, wronged=True)
            yield f"Mallory updates the live deployment to {name}", changed
    for scope in scene.revokes:
        yield from _revoked(world, scope, rules)


def _after_update(world: World, live: Site) -> World:
    if live.manifest == "D" != world.live.manifest:
        # The dismissed replica also knows the next root, if the state has it.
        known = {world.live.root, *({live.root} if live.root.startswith("next") else ())}
        world = world._replace(leaked=world.leaked | known)
    # V and S require the same version, so an update from V to S takes nothing away.
    same = {"S", "V"} if world.live.manifest == "V" else {world.live.manifest}
    if live.manifest in _LEAST_TRUST - same:
        world = world._replace(issued=frozenset(), is_late_copy=False)
    return world._replace(live=live, dismissed=live.manifest == "N")


def _revoked(world: World, scope: str, rules: Rules) -> Iterator[Action]:
    kind = events.Scope.PLATFORM if scope == "machine" else events.Scope(scope)
    machine = {"machine": OTHER, "platform": MACHINE}.get(scope, b"")
    command = commands.RevokeWorkloads(
        user("admin").der,
        kind,
        "" if machine else "web",
        uuid_of("W") if scope == "workload" else "",
        machine,
    )
    made = decided(world.live.state, command, world.now)
    if not made:
        return
    names = {
        cert.lineage
        for holder in world.holders
        for cert in holder.certs
        if lineage_in(world.live, cert.lineage) is not None
        and (not machine or holder.machine == machine)
        and (scope != "workload" or cert.workload == "W")
    }
    live = applied(world.live, made)
    if not rules.keeps_marks:
        state = live.state
        forgotten = {
            name: events.NamedLineage(name, lineage)
            for name, lineage in world.live.state.lineages.items()
        }
        live = Site.of(live.name, live.manifest, live.root, state)
        live = applied(live, (events.BaseLineages(tuple(forgotten.values())),))
    after = world._replace(live=live, machines=world.machines | ({machine} if machine else set()))
    if scope == "type":
        keys = {cert.key for holder in world.holders for cert in holder.certs}
        yield "a user revokes the type", after._replace(doubted=world.doubted | keys)
    else:
        yield f"a user revokes the {scope}", after._replace(revoked=world.revoked | names)


def _of_host(world: World, scene: Scene) -> Iterator[Action]:
    if scene.copies and world.copy is None:
        live = world.live
        copy = Site.of("copy", live.manifest, live.root, live.state)
        yield "the host starts a copy", world._replace(copy=copy, is_late_copy=True)
    if scene.replicas and world.behind is None:
        yield "the second replica falls behind", world._replace(behind=world.live)
    if not scene.backups:
        return
    if world.backup is None:
        yield "the operator makes a backup", world._replace(backup=world.live)
    elif not world.restored and world.live != world.backup:
        old = world.backup
        live = Site.of("restored", old.manifest, old.root, old.state)
        counts = dict(old.state.activations.items())
        # The restored state does not know the later renewals and revocations.
        yield (
            "the operator restores the backup",
            world._replace(
                live=live,
                activated=counts.get("web", 0),
                ended=frozenset(),
                revoked=frozenset(),
                doubted=frozenset(),
                machines=frozenset(),
                restored=True,
            ),
        )
