"""A coordinator of the model: the decisions of the product, applied to a state."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from support.living.renewal import living_manifest
from support.samples.deployment import NOW, user

from keyhouse.authority import read_marble_certificate
from keyhouse.base.errors import KeyhouseError
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.context import Context, moment
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.lineages import trusted_roots
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import AcceptingManifest, FormerRoot, Lineage, Running
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.coordinator.update.retained import overlap_hours
from keyhouse.server.services.feature_gates import identify_marble
from keyhouse.server.services.renewal_checks import require_reader
from models.lineages.rules import Refusals, Rules
from models.lineages.world import (
    FIRST,
    LIFETIME,
    Cert,
    Holder,
    Site,
    der_of,
    hash_of,
    keys_of,
    lineage_id,
    uuid_of,
)

ADMITTED: Final = {
    "T": {"v2", "v3"},
    "N": {"v2", "v3"},
    "D": {"v2", "v3"},
    "S": {"v3"},
    "V": {"v3"},
    "E": {"evil"},
}
"""The code that each manifest admits. The model decides this, because the evidence is not real.

T is the first manifest. N dismisses Mallory. D dismisses a replica. S raises the version of the
package; V does so by a package update, under the manifest in force. E admits the code of the
attacker.
"""


@cache
def manifest(name: str) -> bytes:
    """Return the manifest with this name."""
    raw: dict[str, Any] = json.loads(
        living_manifest(
            Config={
                "UpdateThreshold": 1,
                "Trust": {"OverlapHours": 24},
                "Replicas": {"Platforms": ["ab" * 16]} if name == "D" else {},
            }
        )
    )
    raw["Marbles"]["web"]["MaxActivations"] = 9
    if name != "N":
        role = {"Certificate": user("mallory").pem.decode(), "Roles": ["admin"]}
        raw["Users"]["mallory"] = role
    if name == "S":
        raw["Packages"]["app"]["SecurityVersion"] = 3
    if name == "E":
        raw["Packages"]["app"]["SignerID"] = "ee" * 32
    return json.dumps(raw).encode()


@cache
def first_state() -> Running:
    """Return the state after the first manifest."""
    accepting = AcceptingManifest(keys_of(FIRST))
    command = prepare_manifest(accepting, manifest("T"), now=NOW)
    event = events.ManifestSet(
        time=NOW,
        platform="test",
        keys=accepting.keys,
        manifest=command.manifest,
        signature=command.signature,
        secrets=command.secrets,
        recovery=command.recovery,
    )
    state = evolve_all(None, [event])
    assert isinstance(state, Running)
    return state


def decided(
    state: Running, command: commands.Command, now: int, ignored: Refusals = frozenset()
) -> tuple[events.Event, ...] | None:
    """Return the events of ``command``; None: refused. A refusal of ``ignored`` has no effect."""
    context = Context("test", bytes(16), "model", bytes(32), now=now)
    try:
        return decide(state, command, context)
    except commands.StaleError:
        return None
    except KeyhouseError as refused:
        if not isinstance(refused, tuple(ignored)):
            return None
        match command:
            case commands.Renew():
                return (events.MarblesRenewed((command.renewed,)),)
            case commands.Activate():
                return (events.MarblesActivated((command.activated,)),)
            case _:
                return None


def applied(site: Site, made: tuple[events.Event, ...]) -> Site:
    """Return the coordinator after events that keep manifest and root."""
    state = evolve_all(site.state, made)
    assert isinstance(state, Running)
    return Site.of(site.name, site.manifest, site.root, state)


def activated(site: Site, holder: Holder, now: int, rules: Rules) -> tuple[Site, Holder] | None:
    """Return the coordinator and the workload after its activation; None: refused."""
    if not may_prove(site, holder, rules):
        return None
    if not rules.again and any(
        each.uuid == uuid_of(holder.name) for each in site.state.lineages.values()
    ):
        return None
    name = f"{holder.name}.{holder.begun}"
    end = now + LIFETIME
    cert = Cert(site.root, name, holder.name, f"made for {name}", now, end)
    event = events.Activated(
        time=now,
        marble_type="web",
        uuid=uuid_of(holder.name),
        names=(),
        counted=True,
        quoted=True,
        platform=holder.machine,
        lineage=events.LineageBegun(lineage_id(name), hash_of(cert.key), end),
    )
    state = site.state
    command = commands.Activate(state.manifest, state.keys.intermediate_cert, event)
    made = decided(state, command, now, rules.renews)
    if made is None:
        return None
    return applied(site, made), holder._replace(certs=(cert,), begun=holder.begun + 1)


def renewal(view: Site, cert: Cert, new: Cert, machine: bytes) -> commands.Renew:
    """Return the command to replace ``cert`` by ``new``, prepared under ``view``."""
    renewed = events.Renewed(
        time=new.begin,
        lineage=lineage_id(cert.lineage),
        presented=hash_of(cert.key),
        key=hash_of(new.key),
        end=new.end,
        platform=machine,
    )
    return commands.Renew(view.state.manifest, view.state.keys.intermediate_cert, renewed)


def updated(site: Site, by: str, name: str, now: int, rules: Rules) -> Site | None:
    """Return the coordinator after an update by the user ``by``; None: refused."""
    # A published next root is the same in every copy of the state.
    series, number = site.name if rules.fresh_roots else "next", int(site.root.split()[1])
    root = f"{series} {number + 1}"
    make = _package_update if name == "V" else _full_update
    made = decided(site.state, make(site.state, by, name, root, rules), now)
    if made is None and rules.updates and by == "mallory":
        made = decided(site.state, make(site.state, "admin", name, root, rules), now)
    if made is None:
        return None
    after = evolve_all(site.state, made)
    assert isinstance(after, Running)
    if not rules.cuts and name == "V":
        former = FormerRoot(site.state.keys.marble_root_cert, now + LIFETIME)
        kept = events.BaseRevocations(after.revoked_platforms, (former,))
        after = evolve_all(after, (kept,))
        assert isinstance(after, Running)
    return Site.of(site.name, name, root, after)


def _package_update(
    state: Running, by: str, _name: str, root: str, _rules: Rules
) -> commands.UpdatePackages:
    return commands.UpdatePackages(
        identity=user(by).der,
        manifest=state.manifest,
        intermediate=state.keys.intermediate_cert,
        versions={"app": 3},
        keys=keys_of(root),
        secrets={},
    )


def _full_update(
    state: Running, by: str, name: str, root: str, rules: Rules
) -> commands.InitiateUpdate:
    raw = manifest(name)
    overlap = overlap_hours(state, policy_of(raw).manifest)
    prepared = commands.PreparedUpdate(
        based_on=state.manifest,
        intermediate=state.keys.intermediate_cert,
        keys=keys_of(root),
        manifest=raw,
        signature=b"",
        kept=(),
        secrets={},
        previous={},
        previous_root_secret=state.previous_root_secret,
        previous_sizes={},
        recovery=state.recovery,
        notes=(),
        warnings=(),
        overlap=overlap if rules.cuts else 24,
        dek=None,
    )
    return commands.InitiateUpdate(user(by).der, state.manifest, raw, prepared, (), ())


_Check = Callable[[Running, bytes, int], object]
_KNOWN: Final[dict[tuple[str, Site, Cert, int], KeyhouseError | None]] = {}


def reads(site: Site, cert: Cert, now: int, rules: Rules) -> bool:
    """Return whether ``site`` gives secrets to the holder of ``cert``."""
    return _permitted("read", require_reader, site, cert, now, rules)


def counts(site: Site, cert: Cert, now: int, rules: Rules) -> bool:
    """Return whether the holder of ``cert`` can raise a counter at ``site``."""
    return _permitted("count", _identify, site, cert, now, rules)


def _identify(state: Running, identity: bytes, now: int) -> object:
    return identify_marble(state, identity, now=now)


def _permitted(name: str, check: _Check, site: Site, cert: Cert, now: int, rules: Rules) -> bool:
    place = (name, site, cert, now)
    try:
        refused = _KNOWN[place]
    except KeyError:
        refused = _KNOWN[place] = _refusal(check, site.state, der_of(cert), now)
    return refused is None or isinstance(refused, tuple(rules.reads))


def _refusal(check: _Check, state: Running, identity: bytes, now: int) -> KeyhouseError | None:
    try:
        check(state, identity, now)
    except KeyhouseError as refused:
        return refused
    return None


def renews(site: Site, holder: Holder, cert: Cert, now: int, rules: Rules) -> bool:
    """Return whether ``site`` renews ``cert`` for the key in flight of ``holder``."""
    if not may_prove(site, holder, rules):
        return False
    new = cert._replace(key=holder.flight, begin=now)
    command = renewal(site, cert, new, holder.machine)
    return decided(site.state, command, now, rules.renews) is not None


def may_prove(site: Site, holder: Holder, rules: Rules) -> bool:
    """Return whether the manifest in force admits the evidence of ``holder``."""
    return not rules.evidence or holder.code in ADMITTED[site.manifest]


def peers_accept(site: Site, cert: Cert, now: int) -> bool:
    """Return whether workloads with the roots of ``site`` accept ``cert`` in a handshake."""
    former = (root.certificate for root in trusted_roots(site.state, now))
    for root in (site.state.keys.marble_root_cert, *former):
        read = read_marble_certificate(der_of(cert), root)
        if read is not None and read.is_valid(moment(now)):
            return True
    return False


def lineage_in(site: Site, name: str) -> Lineage | None:
    """Return the lineage with this name in the state of ``site``, or None."""
    return site.state.lineages.get(lineage_id(name))
