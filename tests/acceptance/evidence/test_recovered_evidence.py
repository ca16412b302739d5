"""Evidence over a recovery: which holders brought the state back."""

import hashlib
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.process.command import run
from support.process.server import Server
from support.samples.recovery import ciphertexts_of, hand_in, holders, recoverable

pytestmark = pytest.mark.acceptance


def test_a_recovery_names_its_holders(tmp_path: Path) -> None:
    server, keys = Server(tmp_path / "data"), holders(3)
    with server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable(keys, threshold=2)))
        pem = client.get("/api/v2/quote").data["cert"].encode()
    (tmp_path / "data" / "sealed_key").unlink()
    machine = tmp_path / "data" / "simulation"
    roots = ("--simulation-root", str(machine / "root.pem"))
    trust = ("--attestation", str(machine / "attestation.json"), *roots)
    with server:
        with server.client() as client:
            for each in keys[1:]:
                share = each.share(shares[each.name])
                assert hand_in(client, share, each.sign(share)).status == 200
        address, file = f"127.0.0.1:{server.port}", str(tmp_path / "a.evidence.json")
        assert run("evidence", "export", address, "-o", file, *trust).code == 0
    root = x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)

    pin = ("--root-fingerprint", hashlib.sha256(root).hexdigest(), "--no-witnesses")
    done = run("evidence", "verify", file, *trust, *pin, "--json")

    assert done.code == 0, done.err
    texts = [row["text"] for row in json.loads(done.out)["entries"]]
    assert texts[3] == "recovered with the recovery keys of rk1, rk2, claimed by the coordinator"
    assert texts[4].startswith("started ")
