"""Genuine code begins with the host's manifest, and is claimed for the expected one later.

Each quote is true, and the manifest in force is the claimed one. But the host had the data key:
its own recovery key is the only one, so its share is the data key, and its own code is admitted.
"""

import base64
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace
from support.host.client import accepts
from support.host.enclave import ADMITTED
from support.peers.replicas import Replicas, awaited, code_of, update, with_replicas
from support.peers.sdk import trust_in_server
from support.process.command import refused_start
from support.process.server import Server
from support.samples.deployment import user
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable
from support.samples.updates import Api

from keyhouse.client import TrustError
from keyhouse.client.trust import verify
from keyhouse.manifest import fingerprint
from keyhouse_simulation import COORDINATOR

pytestmark = pytest.mark.acceptance

HOST = holder("the host's")
OWN_CODE = {"UniqueID": COORDINATOR.unique_id.hex()}
EXPECTED = recoverable([holder("good")])
CLAIM = ("--claim-fingerprint", hashlib.sha256(EXPECTED).hexdigest())


def _begun(data: Path, *manifests: bytes, arguments: tuple[str, ...] = ()) -> Server:
    """Return a coordinator in ``data`` under ``manifests`` in turn, which is stopped."""
    server = Server(data, arguments=arguments)
    with server, server.client() as client, server.client(user("admin")) as admin:
        assert client.set_manifest(manifests[0]).status == 200
        for raw in manifests[1:]:
            assert Api(2).update(admin, raw).status == 200
    return server


def _root_at(server: Server) -> bytes:
    """Return the root certificate (DER) of the coordinator that runs."""
    with server.client() as client:
        pem = client.get("/api/v2/quote").data["cert"].encode()
    return x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)


def _refused(server: Server, **trust: Any) -> str:
    """Return why a client refuses ``server`` that judges its line."""
    with pytest.raises(TrustError) as refused:
        verify(f"127.0.0.1:{server.port}", replace(trust_in_server(server), **trust))
    return refused.value.message


def test_the_line_alone_shows_that_the_host_began_a_deployment(tmp_path: Path) -> None:
    """As stated: who compares quote and manifest in force accepts the host's deployment."""
    with _begun(tmp_path / "data", recoverable([HOST]), EXPECTED) as server:
        assert accepts(server, EXPECTED, _root_at(server))
        assert "the deployment began with the manifest" in _refused(server, first_manifest=EXPECTED)


def test_the_line_alone_shows_a_later_manifest_that_admits_the_host(tmp_path: Path) -> None:
    """As stated: a claim says nothing about later manifests."""
    mistake, later = recoverable([HOST]), recoverable([holder("good")], secrets=4)
    server = _begun(tmp_path / "data", EXPECTED, mistake, later, arguments=CLAIM)
    with server:
        assert accepts(server, later, _root_at(server))
        judged = {"first_manifest": EXPECTED, "manifests": "all", "accepted_manifests": (later,)}
        assert fingerprint(mistake) in _refused(server, **judged)


def test_a_restart_with_a_claim_checks_the_first_manifest(tmp_path: Path) -> None:
    _begun(tmp_path / "data", recoverable([HOST]), EXPECTED)
    first = hashlib.sha256(recoverable([HOST])).hexdigest()
    refused = refused_start(tmp_path / "data", *CLAIM)
    assert refused.error.startswith(
        f"the state begins with the manifest {first}; --claim-fingerprint requires {CLAIM[1]}"
    )
    assert refused.hint.startswith("pass the fingerprint of the first manifest")


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
