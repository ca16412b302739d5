"""The policy of the manifest in force is made once, even if other manifests are prepared."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from support.cosigner import Cosigner
from support.living.renewal import living_manifest
from support.samples import deployment
from support.samples.manifests import full

from keyhouse.coordinator import policy_of
from keyhouse.coordinator.core.policy import Policy

WITNESSES = f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n"


def manifest(number: int) -> bytes:
    """Return a manifest that no other test uses."""
    document = full()
    document["Packages"]["policy"] = {"SignerID": f"{number:064x}", "ProductID": 1}
    document["Packages"]["policy"]["SecurityVersion"] = 1
    return json.dumps(document).encode()


def test_the_policy_of_what_is_asked_for_again_outlives_what_is_only_prepared() -> None:
    raw = manifest(0)
    in_force = policy_of(raw)
    for number in range(1, 20):
        policy_of(manifest(number))
        assert policy_of(raw) is in_force


def test_what_nobody_asks_for_is_forgotten_and_made_again_the_same() -> None:
    raw = manifest(100)
    once = policy_of(raw)
    for number in range(101, 120):
        policy_of(manifest(number))
    again = policy_of(raw)
    assert again is not once
    assert again.manifest == once.manifest


def test_threads_that_ask_at_the_same_time_get_the_same_policy() -> None:
    for number in range(200, 210):
        raw, ready = manifest(number), Barrier(4)

        def ask(raw: bytes = raw, ready: Barrier = ready) -> Policy:
            ready.wait()
            return policy_of(raw)

        with ThreadPoolExecutor(4) as threads:
            made = [threads.submit(ask) for _ in range(4)]
            assert len({id(each.result()) for each in made}) == 1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "no witnesses: "),
        ({"Transparency": {"SignedApprovals": True}}, "no witnesses: "),
        ({"Transparency": {"Witnesses": WITNESSES}}, "witnesses are asked, not waited for"),
        ({"Transparency": {"Witnesses": WITNESSES, "Serve": "Witnessed"}}, ""),
        ({"SealMode": "Disabled"}, ""),
    ],
)
def test_it_is_told_whether_anything_stops_a_rollback(config: dict[str, Any], said: str) -> None:
    note = policy_of(deployment.manifest(**config)).manifest.config.rollback_note
    assert note.startswith(said)
    assert bool(note) is bool(said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "rolls activation limits and monotonic counters back: only clients"),
        ({"AnchorBefore": ["Counters"]}, "activation limits and monotonic counters back: only"),
        ({"Serve": "Witnessed"}, "and monotonic counters back as far as the last anchor"),
        ({"Serve": "Witnessed", "AnchorBefore": ["Counters"]}, "rolls activation limits back as"),
        ({"Serve": "Witnessed", "AnchorBefore": ["Counters", "LimitedActivations"]}, ""),
    ],
)
def test_it_is_told_how_far_limits_and_counters_can_be_rolled_back(
    more: dict[str, Any], said: str
) -> None:
    rules = {"Witnesses": WITNESSES, **more}
    content = json.loads(deployment.manifest(Transparency=rules, FeatureGates=["MonotonicCounter"]))
    content["Marbles"]["app"]["MaxActivations"] = 3
    caveats = policy_of(json.dumps(content).encode()).caveats
    assert [said in caveat for caveat in caveats] == ([True] if said else [])


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({}, "rolls revocations back: only clients"),
        ({"Serve": "Witnessed"}, "rolls revocations back as far as the last anchor"),
        ({"Serve": "Witnessed", "AnchorBefore": ["Revocations"]}, ""),
        ({"AnchorBefore": ["Revocations"]}, "rolls revocations back: only clients"),
    ],
)
def test_it_is_told_how_far_revocations_can_be_rolled_back(
    rules: dict[str, Any], said: str
) -> None:
    transparency = {"Witnesses": WITNESSES, **rules}
    caveats = policy_of(living_manifest(Config={"Transparency": transparency})).caveats
    assert [said in caveat for caveat in caveats] == ([True] if said else [])
