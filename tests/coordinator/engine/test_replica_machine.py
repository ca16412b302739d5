"""Replicas under all faults of a simulated store; ``scripts/fuzz replicas`` runs longer."""

from typing import Any

import pytest
from hypothesis import settings
from support.replicas.machine import Replicas

TestReplicas = pytest.mark.timeout(120)(Replicas.TestCase)
TestReplicas.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    "steps",
    [
        # A writer that lost its turn pauses before it follows, so the answer is late.
        [("cut_off", {"which": 0, "how": "frozen"}), ("join", {}), ("compact", {"which": 0})],
        # Both sides of a fork begin the same epoch.
        [
            ("cut_off", {"which": 0, "how": "forked"}),
            *[("join", {})] * 3,
            ("compact", {"which": 0}),
            ("raise_version", {"which": 1, "version": 3}),
            ("compact", {"which": 1}),
        ],
    ],
    ids=["frozen", "forked"],
)
def test_found_sequences_hold_after_the_repair_of_the_network(
    steps: list[tuple[str, dict[str, Any]]],
) -> None:
    machine = Replicas()
    try:
        machine.start()
        for name, values in [*steps, ("heal", {"which": 0})]:
            getattr(machine, name)(**values)
            machine.everything_holds()
    finally:
        machine.teardown()
