"""Evidence of a live coordinator: nonces, concurrency, and trust from a client's side."""

import base64
import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.process.server import Server
from support.samples.deployment import manifest, user

from keyhouse.attestation import Verifier, quote_binding, read_collateral, read_expected_identity
from keyhouse.attestation.coordinator_appraisal import appraise
from keyhouse.base.secret import Secret
from keyhouse.client import (
    ClientIdentity,
    Coordinator,
    SecretUpload,
    TrustedCoordinator,
    TrustError,
    verify_coordinator,
)
from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance


def _root_of_simulation(server: Server) -> bytes:
    pem = (server.data / "simulation" / "root.pem").read_bytes()
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def _verify(server: Server, of: Server | None = None) -> TrustedCoordinator:
    """Verify ``server`` with the files of ``of``."""
    folder = (of or server).data / "simulation"
    return verify_coordinator(
        f"127.0.0.1:{server.port}",
        expected=read_expected_identity((folder / "attestation.json").read_bytes()),
        root_ca_der=_root_of_simulation(of or server),
        collateral=read_collateral((folder / "collateral.json").read_bytes()),
    )


@pytest.mark.parametrize("phase", Phase)
def test_the_evidence_verifies_in_every_phase(servers: dict[Phase, Server], phase: Phase) -> None:
    trusted = _verify(servers[phase])
    with Coordinator(trusted) as coordinator:
        assert coordinator.status().code == phase


def test_a_coordinator_of_another_simulated_machine_is_not_trusted(
    servers: dict[Phase, Server],
) -> None:
    with pytest.raises(TrustError):
        _verify(servers[Phase.RUNNING], of=servers[Phase.ACCEPTING_MANIFEST])


def test_each_of_many_concurrent_quotes_binds_its_own_nonce(running: Server) -> None:
    nonces = [number.to_bytes(2) * 16 for number in range(40)]
    answers: dict[bytes, dict[str, str]] = {}

    def ask(share: list[bytes]) -> None:
        with running.client() as client:
            for nonce in share:
                text = base64.urlsafe_b64encode(nonce).decode()
                answers[nonce] = client.get(f"/api/v2/quote?nonce={text}").data

    threads = [threading.Thread(target=ask, args=(nonces[part::8],)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = running.data / "simulation"
    collateral = read_collateral((folder / "collateral.json").read_bytes())
    expected = read_expected_identity((folder / "attestation.json").read_bytes())
    verifier = Verifier(_root_of_simulation(running))
    for nonce in nonces:
        pem = answers[nonce]["cert"].encode()
        root = x509.load_pem_x509_certificates(pem)[1].public_bytes(Encoding.DER)
        quote = base64.b64decode(answers[nonce]["quote"])
        verdict = verifier.verify(quote, collateral, datetime.now(UTC))
        appraise(verdict, expected, binding=quote_binding(root, nonce))


def test_without_a_nonce_the_quote_binds_the_root_alone(running: Server) -> None:
    with running.client() as client:
        answer = client.get("/api/v2/quote").data
        assert client.get("/api/v2/quote?nonce=").data == answer
    root = x509.load_pem_x509_certificates(answer["cert"].encode())[1]
    collateral = read_collateral((running.data / "simulation/collateral.json").read_bytes())
    verdict = Verifier(_root_of_simulation(running)).verify(
        base64.b64decode(answer["quote"]), collateral, datetime.now(UTC)
    )
    binding = quote_binding(root.public_bytes(Encoding.DER))
    assert verdict.report_data == binding + bytes(32)


def test_a_verified_client_does_the_whole_job(tmp_path: Path) -> None:
    files = {}
    for name in ("writer", "reader"):
        certificate, key = tmp_path / f"{name}.crt", tmp_path / f"{name}.key"
        certificate.write_bytes(user(name).pem)
        key.write_bytes(user(name).key_pem)
        files[name] = ClientIdentity(certificate, key)
    with Server(tmp_path / "data") as server:
        trusted = _verify(server)
        with Coordinator(trusted) as coordinator:
            assert coordinator.set_manifest(manifest()) == {}
            assert coordinator.manifest().manifest == manifest()
        with Coordinator(trusted, files["writer"]) as coordinator:
            coordinator.write_secrets({"key0": SecretUpload(key=Secret(b"k" * 16))})
        with Coordinator(trusted, files["reader"]) as coordinator:
            found = coordinator.secrets(["key0", "shared"])
            assert found["key0"].private == Secret(b"k" * 16)
            log = coordinator.update_log()
        assert [json.loads(entry.text)["update"] for entry in log] == [
            "Initial manifest set",
            "Secret set",
        ]
