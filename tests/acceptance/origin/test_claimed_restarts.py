"""Genuine code begins with the host's manifest, and is claimed for the expected one later.

Each quote is true, and the manifest in force is the claimed one. But the host had the data key:
its own recovery key is the only one, so its share is the data key, and its own code is admitted.
"""

import base64
import hashlib
import shutil
from pathlib import Path

import pytest
from support.host.enclave import ADMITTED
from support.peers.replicas import Replicas, awaited, code_of, update, with_replicas
from support.process.command import refused_start
from support.process.server import Server
from support.samples.deployment import user
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable
from support.samples.updates import Api

from keyhouse_simulation import COORDINATOR

pytestmark = pytest.mark.acceptance

HOST = holder("the host's")
OWN_CODE = {"UniqueID": COORDINATOR.unique_id.hex()}
EXPECTED = recoverable([holder("good")])
CLAIM = ("--claim-fingerprint", hashlib.sha256(EXPECTED).hexdigest())


def _begun(data: Path, *manifests: bytes) -> Server:
    """Return a coordinator in ``data`` under ``manifests`` in turn, which is stopped."""
    server = Server(data)
    with server, server.client() as client, server.client(user("admin")) as admin:
        assert client.set_manifest(manifests[0]).status == 200
        for raw in manifests[1:]:
            assert Api(2).update(admin, raw).status == 200
    return server


def test_a_restart_with_a_claim_checks_the_first_manifest(tmp_path: Path) -> None:
    _begun(tmp_path / "data", recoverable([HOST]), EXPECTED)
    first = hashlib.sha256(recoverable([HOST])).hexdigest()
    refused = refused_start(tmp_path / "data", *CLAIM)
    assert refused.error.startswith(
        f"the state begins with the manifest {first}, this coordinator is claimed for {CLAIM[1]}"
    )
    assert refused.hint.startswith("claim the first manifest of the deployment")


def test_a_recovery_with_a_claim_checks_the_first_manifest(tmp_path: Path) -> None:
    data, good = tmp_path / "data", holder("good")
    server = _begun(data, recoverable([HOST]), EXPECTED)
    with server, server.client(user("admin")) as admin:
        found = admin.get("/api/v2/recovery-secrets").data["recoverySecrets"]
    (data / "sealed_key").unlink()
    with Server(data, arguments=CLAIM) as claimed, claimed.client() as client:
        share = good.share(base64.b64decode(found[good.name]))
        refused = hand_in(client, share, good.sign(share))
        assert refused.status == 400
        assert b"the state begins with the manifest" in refused.body
        assert client.get("/api/v2/status").data["code"] == 1


def test_a_claim_of_the_first_manifest_holds_after_updates_restarts_and_recovery(
    tmp_path: Path,
) -> None:
    """Such a start accepts its own code alone, so nothing but its own seal or quotes counts."""
    data, good = tmp_path / "data", holder("good")
    later = recoverable([good], secrets=4)
    server = Server(data, arguments=CLAIM)
    with server, server.client() as client, server.client(user("admin")) as admin:
        shares = ciphertexts_of(client.set_manifest(EXPECTED))
        assert Api(2).update(admin, later).status == 200
    objects = data / "log"
    objects.rename(tmp_path / "log")  # with all quotes: the own seal is enough
    for _ in range(2):
        with server:
            assert code_of(server) == 3
        server.start()
        server.kill()
    shutil.rmtree(objects)
    (tmp_path / "log").rename(objects)
    (data / "sealed_key").unlink()
    with server, server.client() as client:
        share = good.share(shares[good.name])
        assert hand_in(client, share, good.sign(share)).status == 200
        assert code_of(server) == 3
    with server:
        assert code_of(server) == 3


def test_a_claim_is_checked_where_a_data_key_is_handed_over(replicas: Replicas) -> None:
    """The one that serves is genuine, of the same code, and not claimed."""
    expected = with_replicas("the expected one")
    (first,) = replicas.founded(1, with_replicas("the host's", Code=[ADMITTED, OWN_CODE]))
    update(first, expected)
    claimed = replicas.elsewhere("--claim-fingerprint", hashlib.sha256(expected).hexdigest())
    claimed.launch()
    awaited("other-settings", first)  # it is not given the key, which it would not use
