"""A plan equals the effects of the update: values, versions, rights, shares, before and after."""

import json
from collections.abc import Callable
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.deployment import user
from support.samples.plans import Deployment, document, encoded, raised
from support.samples.updates import Document, holder_pem, together

from keyhouse.base.errors import ConflictError, ForbiddenError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Running, SentUpdate, StaleError, policy_of, prepare_acknowledgement
from keyhouse.coordinator.core.commands import InitiateUpdate
from keyhouse.coordinator.core.policy import versions_in_force
from keyhouse.coordinator.update.prepare import PlanChangedError
from keyhouse.manifest import Action, Manifest, decode
from keyhouse.wire.plan import Plan, PlanData

NOW = 1_800_000_000_000_000

SECRETS: dict[str, Document] = {
    "shared": {"Type": "symmetric-key", "Shared": True},
    "own": {"Type": "symmetric-key"},
    "cert": {"Type": "cert-ecdsa", "Shared": True},
    "leaf": {"Type": "cert-ecdsa"},
    "note": {"Type": "plain", "UserDefined": True},
    "other": {"Type": "symmetric-key", "UserDefined": True},
    "given": {"Type": "plain", "UserDefined": True, "Private": "R0lWRU4="},
}
ACTIONS = {
    "Packages": ["UpdateSecurityVersion"],
    "Secrets": ["ReadSecret", "WriteSecret"],
    "Manifest": ["UpdateManifest"],
}


@st.composite
def secrets(draw: st.DrawFn) -> Document:
    """Draw some of the secrets, with different sizes and templates."""
    found: Document = {}
    for name in draw(st.sets(st.sampled_from([*SECRETS]))):
        definition: Document = dict(SECRETS[name])
        if definition["Type"] == "symmetric-key":
            definition["Size"] = draw(st.sampled_from([128, 256]))
        if definition["Type"] == "cert-ecdsa":
            definition["Size"] = 256
            if draw(st.booleans()):
                definition["ValidFor"] = 30
            if draw(st.booleans()):
                definition["Cert"] = {"DNSNames": ["a.example"]}
        found[name] = definition
    return found


@st.composite
def roles(draw: st.DrawFn, user_defined: list[str]) -> Document:
    """Draw two roles, with or without effect."""
    found: Document = {}
    for name in ("first", "second"):
        kind = draw(st.sampled_from([*ACTIONS]))
        names: list[str] = []
        if kind == "Packages":
            names = draw(st.lists(st.sampled_from(["app", "tool"]), unique=True))
        if kind == "Secrets" and user_defined:
            names = draw(st.lists(st.sampled_from(user_defined), unique=True))
        actions = draw(st.lists(st.sampled_from(ACTIONS[kind]), unique=True))
        found[name] = {"ResourceType": kind, "ResourceNames": names, "Actions": actions}
    return found


@st.composite
def manifests(draw: st.DrawFn) -> bytes:
    """Draw a manifest that ``alice`` may update; ``writer`` may upload."""
    content = document()
    content["Packages"]["app"]["SecurityVersion"] = draw(st.integers(1, 4))
    content["Marbles"]["web"] = {"Package": "app"}
    content["Marbles"]["job"]["MaxActivations"] = draw(st.integers(0, 3))
    content["Secrets"] = draw(secrets())
    own = [name for name, each in content["Secrets"].items() if each.get("UserDefined")]
    content["Roles"]["write"]["ResourceNames"] = own
    content["Roles"] |= draw(roles(own))
    for name in draw(st.sets(st.sampled_from(["bob", "carol"]))):
        certificate = user(draw(st.sampled_from([name, f"{name}'s next"]))).pem.decode()
        given = draw(st.lists(st.sampled_from(["first", "second"]), unique=True))
        content["Users"][name] = {"Certificate": certificate, "Roles": given}
    keys = draw(st.sets(st.sampled_from(["rk0", "rk1"])))
    content["RecoveryKeys"] = {name: holder_pem(name) for name in sorted(keys)}
    content["Config"]["RotateRootSecret"] = draw(st.booleans())
    return json.dumps(content).encode()


def _lived(draw: st.DataObject, first: bytes) -> Deployment:
    """Return a deployment after some uploads, updates and activations."""
    deployed = Deployment(first)
    definitions = policy_of(first).manifest.secrets
    for name in ("note", "other"):
        if name in definitions and draw.draw(st.booleans(), f"upload {name}"):
            deployed.upload(**{name: bytes(definitions[name].size // 8 or 5)})
    if draw.draw(st.booleans(), "raise the version"):
        deployed.do(deployed.prepare(raised(app=draw.draw(st.integers(4, 5))), by="releaser"))
    limit = policy_of(first).manifest.marbles["job"].max_activations
    if limit:
        deployed.activate("job", draw.draw(st.integers(0, limit), "activations"))
    return deployed


def _named(plan: Plan, *whats: str) -> set[str]:
    return {each.name for each in (*plan.changes, *plan.renewals) if each.what in whats}


@settings(max_examples=60, deadline=None)
@given(draw=st.data(), first=manifests(), new=manifests())
def test_the_plan_of_a_full_update_comes_true(
    draw: st.DataObject, first: bytes, new: bytes
) -> None:
    deployed = _lived(draw, first)
    before, found = deployed.state, deployed.plan(new)
    command = deployed.prepare(new, plan=found.digest)
    assert isinstance(command, InitiateUpdate)
    deployed.do(command)
    after = deployed.state
    assert after.pending is None
    assert after.manifest == new
    _values_are_as_said(found, before, after)
    _versions_are_as_said(found.plan, before, after)
    _rights_are_as_said(found.plan, before, after)
    assert command.application is not None
    _keys_are_as_said(found.plan, before, after, renewed=command.application.dek is not None)
    limit = policy_of(new).manifest.marbles["job"].max_activations
    if "job" in _named(found.plan, "limit-reached"):
        assert 0 < limit <= after.activations.get("job", 0)
    same = _in_force(first, before) == msgspec.structs.replace(decode(new), raw=b"")
    rotates = decode(new).config.rotate_root_secret
    assert (found.plan.changes == ()) is (same and not rotates)


def _in_force(raw: bytes, state: Running) -> Manifest:
    """Return the manifest ``raw`` with the versions raised by package updates."""
    manifest, raised = decode(raw), state.security_versions
    packages = {
        name: msgspec.structs.replace(
            package, security_version=raised.get(name, package.security_version)
        )
        for name, package in manifest.packages.items()
    }
    return msgspec.structs.replace(manifest, raw=b"", packages=packages)


def _values_are_as_said(found: PlanData, before: Running, after: Running) -> None:
    plan = found.plan
    definitions = policy_of(after.manifest).manifest.secrets
    for name in plan.kept:
        assert after.secrets.get(name) == before.secrets.get(name)
        assert after.previous.get(name) == before.previous.get(name)
    for name in set(before.secrets) & set(after.secrets) - set(plan.kept):
        assert after.secrets[name] != before.secrets[name]
    replaced = _named(plan, "value-replaced", "certificate-renewed")
    for name in replaced & set(before.secrets):
        assert after.previous[name] == before.secrets[name]
        assert after.secrets[name] != before.secrets[name]
    lost = {
        name
        for name, value in before.secrets.items()
        if value not in (after.secrets.get(name), after.previous.get(name))
    }
    assert lost == _named(plan, "value-lost")
    empty = {name for name, each in definitions.items() if each.user_defined} - set(after.secrets)
    to_upload = {each.name for each in plan.changes if each.after == "uploaded"}
    assert empty == _named(plan, "value-needed") | to_upload | set(found.not_uploaded)
    given = {each.name for each in plan.changes if each.after == "given"}
    for name in given | _named(plan, "value-given"):
        assert after.secrets[name].private == Secret(b"GIVEN")
    old = policy_of(before.manifest).manifest.secrets
    for name in plan.kept:
        if not (definitions[name].shared or definitions[name].user_defined):
            assert after.keys.root_secret == before.keys.root_secret
            assert after.previous_root_secret == before.previous_root_secret
            assert old[name].size == definitions[name].size


def _versions_are_as_said(plan: Plan, before: Running, after: Running) -> None:
    was, becomes = versions_in_force(before), versions_in_force(after)
    said = {
        each.name: (each.before, each.after)
        for each in plan.changes
        if each.field == "SecurityVersion"
    }
    assert said == {
        name: (str(was[name] or ""), str(becomes[name] or ""))
        for name in was.keys() & becomes.keys()
        if was[name] != becomes[name]
    }
    assert plan.versions == {name: each for name, each in was.items() if each is not None}


def _rights_are_as_said(plan: Plan, before: Running, after: Running) -> None:
    old, new = policy_of(before.manifest), policy_of(after.manifest)
    said = {
        (each.what, each.name, each.field, name)
        for each in plan.changes
        if each.what in {"right-gained", "right-lost"}
        for name in each.names or ("",)
    }
    people = {**old.manifest.users, **new.manifest.users}
    resources = ["", *old.manifest.secrets, *new.manifest.secrets, "app", "tool"]
    found = set()
    for name, action, resource in product(people, Action, resources):
        if (action is Action.UPDATE_MANIFEST) is bool(resource):
            continue
        wanted = (resource,) if resource else ()
        had = old.permissions.allows(name, action, wanted)
        has = new.permissions.allows(name, action, wanted)
        if had != has:
            found.add(("right-gained" if has else "right-lost", name, str(action), resource))
    assert said == found
    assert _named(plan, "user-added") == new.manifest.users.keys() - old.manifest.users.keys()
    assert _named(plan, "user-removed") == old.manifest.users.keys() - new.manifest.users.keys()


def _keys_are_as_said(plan: Plan, before: Running, after: Running, *, renewed: bool) -> None:
    whats = {each.what for each in (*plan.changes, *plan.renewals)}
    assert ("shares-renewed" in whats) is renewed is (after.recovery != before.recovery)
    rotated = after.keys.root_secret != before.keys.root_secret
    assert ("root-secret-rotated" in whats) is rotated
    if rotated:
        assert after.previous_root_secret == before.keys.root_secret
    assert after.keys.root_cert == before.keys.root_cert
    assert after.keys.intermediate_key != before.keys.intermediate_key
    assert after.keys.marble_root_cert != before.keys.marble_root_cert
    assert {"intermediate-renewed", "marble-root-renewed", "epoch-begun"} <= whats


@settings(max_examples=20, deadline=None)
@given(draw=st.data(), first=manifests(), version=st.integers(5, 7))
def test_the_plan_of_a_package_update_comes_true(
    draw: st.DataObject, first: bytes, version: int
) -> None:
    deployed = _lived(draw, first)
    before, raw = deployed.state, raised(app=version)
    found = deployed.plan(raw, by="releaser")
    deployed.do(deployed.prepare(raw, by="releaser", plan=found.digest))
    after, plan = deployed.state, found.plan
    assert after.manifest == before.manifest
    _versions_are_as_said(plan, before, after)
    renewed = _named(plan, "certificate-renewed")
    changed = {name for name, value in after.secrets.items() if before.secrets[name] != value}
    assert changed == renewed
    assert after.previous == before.previous
    assert renewed.isdisjoint(plan.kept)
    assert after.keys.root_secret == before.keys.root_secret
    assert after.keys.intermediate_key != before.keys.intermediate_key
    assert after.recovery == before.recovery


# --- the binding of a plan ---


def _shrunk(content: Document) -> None:
    """Remove ``note``, and lower the limit of ``job``."""
    del content["Secrets"]["note"]
    content["Roles"]["write"]["ResourceNames"] = ["other"]
    content["Marbles"]["job"]["MaxActivations"] = 2


Happening = Callable[[Deployment], object]

HAPPENINGS: dict[str, tuple[Happening, bool]] = {
    "a value that will be kept is uploaded": (lambda one: one.upload(other=b"x"), True),
    "a workload activates": (lambda one: one.activate("job", 1), True),
    "a value that will be lost is uploaded": (lambda one: one.upload(note=b"x"), False),
    "so many activate that the new limit is reached": (lambda one: one.activate("job", 2), False),
    "a version is raised": (
        lambda one: one.do(one.prepare(raised(app=4), by="releaser")),
        False,
    ),
    "another manifest is in force": (
        lambda one: one.do(one.prepare(encoded() + b" ")),
        False,
    ),
}


@pytest.mark.parametrize("case", HAPPENINGS)
def test_who_is_bound_is_refused_exactly_if_something_else_would_happen(case: str) -> None:
    happen, same = HAPPENINGS[case]
    deployed, new = Deployment(encoded()), encoded(_shrunk)
    digest = deployed.plan(new).digest
    early = deployed.prepare(new, plan=digest)
    happen(deployed)
    assert (deployed.plan(new).digest == digest) is same
    if same:
        deployed.do(deployed.prepare(new, plan=digest))
        return
    with pytest.raises(StaleError):
        deployed.do(early)
    with pytest.raises(PlanChangedError, match=deployed.plan(new).digest):
        deployed.prepare(new, plan=digest)
    deployed.do(deployed.prepare(new, plan=deployed.plan(new).digest))


def test_a_package_update_is_bound_as_well() -> None:
    deployed, raw = Deployment(encoded()), raised(app=5)
    digest = deployed.plan(raw, by="releaser").digest
    early = deployed.prepare(raw, by="releaser", plan=digest)
    deployed.do(deployed.prepare(raised(app=4), by="releaser"))
    with pytest.raises(StaleError):
        deployed.do(early)
    with pytest.raises(PlanChangedError):
        deployed.prepare(raw, by="releaser", plan=digest)


def test_all_reviewers_see_one_digest_however_many_have_agreed() -> None:
    deployed, new = Deployment(together(UpdateThreshold=0)), together(word="new")
    first = deployed.plan(new, by="bob")
    assert first.missing_users == ("alice", "bob", "carol")
    assert first.plan.needed == first.missing_acknowledgments == 3  # not the 2 of the new manifest
    deployed.do(deployed.prepare(new, plan=first.digest))
    for name, missing in (("bob", 2), ("carol", 1)):
        found = deployed.plan(new, by=name)
        assert (found.digest, found.missing_acknowledgments) == (first.digest, missing)
        bound = prepare_acknowledgement(
            deployed.state, SentUpdate(user(name).der, new, plan=first.digest), now=NOW
        )
        with pytest.raises(PlanChangedError):
            prepare_acknowledgement(
                deployed.state, SentUpdate(user(name).der, new, plan="00" * 32), now=NOW
            )
        deployed.do(bound)
    assert deployed.state.manifest == new


def test_an_acknowledgement_is_refused_if_something_else_would_happen_by_now() -> None:
    def change(content: Document) -> None:
        del content["Secrets"]["note"]
        content["Roles"]["write"]["ResourceNames"] = []

    deployed, new = Deployment(together()), together(change)
    digest = deployed.plan(new).digest
    deployed.do(deployed.prepare(new))
    early = prepare_acknowledgement(
        deployed.state, SentUpdate(user("bob").der, new, plan=digest), now=NOW
    )
    deployed.upload(note=b"x")
    with pytest.raises(StaleError):
        deployed.do(early)
    with pytest.raises(PlanChangedError):
        prepare_acknowledgement(
            deployed.state, SentUpdate(user("bob").der, new, plan=digest), now=NOW
        )


def test_a_plan_is_for_those_who_may_make_the_update() -> None:
    deployed = Deployment(together())
    for name in ("writer", "releaser"):
        with pytest.raises(ForbiddenError):
            deployed.plan(together(word="new"), by=name)
    with pytest.raises(ForbiddenError):
        deployed.plan(raised(app=9), by="alice")
    deployed.do(deployed.prepare(together(word="new")))
    with pytest.raises(ConflictError, match="pending"):
        deployed.plan(together(word="other"), by="bob")
    with pytest.raises(ConflictError, match="pending"):
        deployed.plan(raised(app=9), by="releaser")
