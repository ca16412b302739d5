"""An update that all agreed to and that cannot take effect any more: refused, and gone."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.samples.deployment import NOW, FixedClock, running_engine, set_manifest, user
from support.samples.updates import together

from keyhouse.coordinator import CannotBeAppliedError
from keyhouse.server.services.manifests import Preparation, Proposal, Updates

DAY = 24 * 3600 * 1_000_000


def _short_lived(document: dict[str, Any]) -> None:
    document["Secrets"]["cert"] = {
        "Type": "cert-ecdsa",
        "Size": 256,
        "Shared": True,
        "Cert": {"NotAfter": "2027-02-01T00:00:00Z"},
    }


async def test_what_cannot_be_applied_is_cancelled_logged_and_makes_room(tmp_path: Path) -> None:
    clock, new = FixedClock(), together(_short_lived)
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, together())
        updates = Updates(engine, Preparation(engine))
        first = await updates.propose(user("alice").der, lambda: Proposal(new))
        assert first.missing == 1
        clock.time = NOW + 60 * DAY
        with pytest.raises(CannotBeAppliedError) as refusal:
            await updates.acknowledge(user("bob").der, lambda: Proposal(new))
        assert [problem.at for problem in refusal.value.problems] == ["Secrets.cert.Cert.NotAfter"]
        assert engine.view.running.pending is None
        assert engine.view.running.manifest == together()
        last = json.loads(engine.view.log.lines()[-1])
        assert set(last) == {"time", "update", "manifestFingerprint"}
        again = await updates.propose(user("bob").der, lambda: Proposal(together(word="b")))
        assert again.missing_users == ("alice", "carol")
