"""The policy of the manifest in force is made once, whatever else is prepared meanwhile."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from support.samples.manifests import full

from keyhouse.coordinator import Policy, policy_of


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
