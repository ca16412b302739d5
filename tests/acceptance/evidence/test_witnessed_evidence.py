"""Evidence of a coordinator whose log witnesses cosign: when they saw what, and for how long."""

import hashlib
import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.cosigner import Cosigner
from support.peers.witness import Witness, policy
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import manifest
from support.witnessed import until_served, upload

from keyhouse.evidence.bundle import read_evidence

pytestmark = pytest.mark.acceptance


def test_witnesses_prove_the_times_and_that_there_is_no_fork(tmp_path: Path) -> None:
    server, auditor = Server(tmp_path / "data"), tmp_path / "auditor"
    auditor.mkdir()
    with ExitStack() as stack:
        names = ("a.example/w", "c.example/w")
        cosigners = [*map(Cosigner.ed25519, names), Cosigner.mldsa44("b.example/w")]
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        transparency = {"Witnesses": policy(witnesses, 2), "Serve": "Witnessed"}
        (auditor / "witnesses.policy").write_text(policy(witnesses, 2))
        with server:
            with server.client() as client:
                assert client.set_manifest(manifest(Transparency=transparency)).status == 200
                key = client.get("/api/v2/log/key").data["verifierKey"]
                pem = client.get("/api/v2/quote").data["cert"].encode()
            for witness in witnesses:
                witness.trust(key)
            until_served(server)
            for name in ("attestation.json", "root.pem", "collateral.json"):
                shutil.copy(server.data / "simulation" / name, auditor)
            assert exported(server, auditor, "first.json").code == 0
            upload(server, bytes(16))
        with server:
            until_served(server)
            assert exported(server, auditor, "second.json", "--earlier", "first.json").code == 0
    root = x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)
    pin = ("--root-fingerprint", hashlib.sha256(root).hexdigest(), *TRUST)

    given = ("--policy", "witnesses.policy", *pin, "--max-age", "3600", "--json")
    done = run("evidence", "verify", "second.json", *given, folder=auditor)

    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["summary"]["witnesses"].split(", ")) >= 2
    assert all(row["witnessed"] for row in found["entries"])
    first, second = (
        len(read_evidence((auditor / name).read_bytes()).checkpoints) for name in FILES
    )
    assert second > first >= 1


FILES = ("first.json", "second.json")
TRUST = ("--attestation", "attestation.json", "--simulation-root", "root.pem")


def exported(server: Server, folder: Path, name: str, *words: str) -> Ended:
    address = f"127.0.0.1:{server.port}"
    return run("evidence", "export", address, "-o", name, *TRUST, *words, folder=folder)
