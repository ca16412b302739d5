"""An update that no witness cosigned, and the shares that it makes for new holders.

Users agreed to a holder who is the host's. No witness has seen the update. With the share the host
has the root key, and it shows an older copy of the state, which witnesses have cosigned.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cosigner import Cosigner
from support.peers.replicas import Replicas, awaited, update
from support.peers.witness import Answered, Witness, policy
from support.process.server import Server
from support.samples.deployment import user
from support.samples.machines import OTHER_CODE
from support.samples.recovery import holder, recoverable
from support.samples.updates import Api, together
from support.witnessed import until_served

from keyhouse_simulation import COORDINATOR

pytestmark = pytest.mark.acceptance

GOOD, HOST = holder("good"), holder("the host's")


@pytest.fixture
def witness() -> Iterator[Witness]:
    """Run one witness, which is enough."""
    with Witness(Cosigner.ed25519("a.example/w")) as running:
        yield running


def test_no_share_leaves_before_witnesses_cosign_the_update(
    tmp_path: Path, witness: Witness
) -> None:
    transparency = {"Witnesses": policy([witness], 1), "Serve": "Witnessed"}
    before, after = (
        recoverable([each], Config={"Transparency": transparency}) for each in (GOOD, HOST)
    )
    with Server(tmp_path / "data") as server, server.client(user("admin")) as admin:
        assert admin.set_manifest(before).status == 200
        witness.trust(admin.get("/api/v2/log/key").data["verifierKey"])
        until_served(server)
        asked = len(witness.told)
        witness.instead = Answered(503)
        answer = Api(2).update(admin, after)
        witness.until_asked(asked + 1)
        shares = admin.get("/api/v2/recovery-secrets")
        assert HOST.name not in answer.body.decode()
        assert HOST.name not in shares.body.decode()
        witness.instead = None
        while (shares := admin.get("/api/v2/recovery-secrets")).status == 503:
            witness.until_asked(len(witness.told))  # it is asked again after a pause
        assert HOST.name in shares.data["recoverySecrets"]


def test_newly_admitted_code_is_given_no_key_before_witnesses_cosign_the_update(
    replicas: Replicas, witness: Witness
) -> None:
    def admitting(*code: dict[str, str]) -> bytes:
        rules = {"Witnesses": policy([witness], 1), "Serve": "Witnessed"}
        return together(
            updaters=["alice"],
            word=str(len(code)),
            UpdateThreshold=1,
            SealMode="UniqueKey",
            Replicas={"Code": code},
            Transparency=rules,
        )

    own = {"UniqueID": COORDINATOR.unique_id.hex()}
    first = replicas.started()
    with first.client() as client:
        assert client.set_manifest(admitting(own)).status == 200
        witness.trust(client.get("/api/v2/log/key").data["verifierKey"])
    until_served(first)
    witness.instead = Answered(503)
    update(first, admitting(own, {"UniqueID": OTHER_CODE.unique_id.hex()}))
    other = replicas.elsewhere(coordinator=OTHER_CODE)
    other.launch()
    awaited("witnesses have not cosigned the newest manifest yet", first)
    assert "handed to another coordinator" not in first.logged()
    witness.instead = None
    awaited("handed to another coordinator", first)
