"""Only an update that revokes no trust keeps the trust in former marble roots."""

import json
from typing import Any

import pytest
from support.living.renewal import living_manifest
from support.samples.authority import coordinator_keys
from support.samples.deployment import NOW, user
from support.samples.updates import holder_pem

from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import AcceptingManifest, Running
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.coordinator.update.retained import overlap_hours

CODE = {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 2}


def before() -> dict[str, Any]:
    """Return the manifest in force, with a second package and a second type."""
    raw: dict[str, Any] = json.loads(living_manifest())
    raw["Packages"]["other"] = {**CODE, "ProductID": 8}
    raw["Marbles"]["plain"] = {"Package": "app"}
    raw["RecoveryKeys"] = {"rk0": holder_pem("rk0")}
    raw["Config"] = {
        "UpdateThreshold": 1,
        "Trust": {"OverlapHours": 24},
        "Replicas": {"Platforms": ["ab" * 16, "cd" * 16]},
    }
    return raw


def running(raw: dict[str, Any]) -> Running:
    """Return the state under the manifest ``raw``."""
    accepting = AcceptingManifest(coordinator_keys("P-256"))
    command = prepare_manifest(accepting, json.dumps(raw).encode(), now=NOW)
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


def hours_after(changes: dict[str, Any]) -> int:
    """Return the overlap of an update with ``changes`` by section; None removes a name."""
    raw = before()
    state = running(raw)
    for section, values in changes.items():
        for name, value in values.items():
            if value is None:
                del raw[section][name]
            else:
                raw[section][name] = value
    return overlap_hours(state, policy_of(json.dumps(raw).encode()).manifest)


def name_of(changes: dict[str, Any]) -> str:
    """Return the changed names. The values differ between processes."""
    return "-".join(f"{section}.{name}" for section in changes for name in changes[section])


@pytest.mark.parametrize(
    "changes",
    [
        {"Packages": {"app": {**CODE, "SecurityVersion": 3}}},
        {"Packages": {"app": {**CODE, "SecurityVersion": 1}}},
        {"Packages": {"app": {**CODE, "AcceptedTCBStatuses": ["OutOfDate"]}}},
        {"Packages": {"other": None}},
        {"Marbles": {"plain": None}},
        {"Marbles": {"plain": {"Package": "other"}}},
        {"RecoveryKeys": {"rk0": holder_pem("another")}},
        {"RecoveryKeys": {"rk1": holder_pem("rk1")}},
        {"Config": {"RotateRootSecret": True}},
        {"Config": {"Replicas": {"Platforms": ["ab" * 16]}}},
        {"Config": {"Replicas": None}},
        {"Config": {"Trust": None}},
        {"Config": {"Trust": {"OverlapHours": 0}}},
    ],
    ids=name_of,
)
def test_an_update_that_takes_trust_away_has_no_overlap(changes: dict[str, Any]) -> None:
    assert hours_after(changes) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Packages": {"new": {**CODE, "ProductID": 9}}},
        {"Marbles": {"new": {"Package": "other"}}},
        {"Marbles": {"plain": {"Package": "app", "MaxActivations": 2}}},
        {"Users": {"more": {"Certificate": user("more").pem.decode(), "Roles": ["writer"]}}},
        {"Config": {"Replicas": {"Platforms": ["ab" * 16, "cd" * 16, "ef" * 16]}}},
    ],
    ids=name_of,
)
def test_another_update_keeps_the_overlap(changes: dict[str, Any]) -> None:
    assert hours_after(changes) == 24


def test_a_manifest_without_renewal_has_no_overlap() -> None:
    raw = before()
    del raw["Marbles"]["web"]["Renewal"]
    del raw["Config"]["Trust"]
    del raw["Roles"]["guard"]
    raw["Users"]["admin"]["Roles"].remove("guard")
    assert overlap_hours(running(raw), policy_of(json.dumps(before()).encode()).manifest) == 0
