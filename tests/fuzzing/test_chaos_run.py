"""A short chaos run on a real database: cheap faults, and a history without violations."""

import pytest
from fuzz.chaos.campaign import Campaign, Settings
from fuzz.chaos.check import violations
from fuzz.chaos.plants import PLANTS, planted
from support.process.start import KEYHOUSE

FAULTS = ("kill", "stop", "reset", "drop-down", "backends")


@pytest.mark.acceptance
def test_replicas_under_cheap_faults_answer_as_one_coordinator() -> None:
    """At first each replica is replaced, as an upgrade does it."""
    settings = Settings(
        1, 600.0, FAULTS, rounds=3 + len(FAULTS), longest=0.5, quiet=0.1, machines=2, cold=False,
        upgrade_to=KEYHOUSE,
    )  # fmt: skip
    campaign = Campaign(settings, lambda _: None)
    history = campaign.run()
    assert violations(history) == []
    assert {fault.kind for fault in history.faults} == {"upgrade", "hour", *FAULTS}
    assert [log.replica for log in history.logs] == [0, 1]
    for kind in PLANTS.keys() - {"version", "manifest", "limit"}:  # a fast run may have too few
        assert violations(planted(history, kind)), kind
