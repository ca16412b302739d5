"""Evidence of a coordinator whose log witnesses cosign: when they saw what, and for how long."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.cosigner import Cosigner
from support.peers.witness import Witness, policy
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import manifest
from support.witnessed import until_cosigned, until_served, upload

from keyhouse.evidence.bundle import read_evidence

pytestmark = pytest.mark.acceptance


class Audited(NamedTuple):
    """A coordinator whose log three witnesses cosign, and the folder of its auditor."""

    server: Server
    witnesses: list[Witness]
    folder: Path
    root: str

    @property
    def key(self) -> str:
        """The key of the log."""
        with self.server.client() as client:
            return str(client.get("/api/v2/log/key").data["verifierKey"])

    def trust(self) -> None:
        """Have all witnesses cosign for the log, and wait until they have."""
        key = self.key
        for witness in self.witnesses:
            witness.trust(key)
        until_served(self.server)

    def verify(self, file: str, *words: str) -> Ended:
        pin = ("--root-fingerprint", self.root, *TRUST, "--policy", "witnesses.policy")
        return run("evidence", "verify", file, *pin, *words, folder=self.folder)


@pytest.fixture(name="audited")
def _audited(tmp_path: Path) -> Iterator[Audited]:
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
                pem = client.get("/api/v2/quote").data["cert"].encode()
            for name in ("attestation.json", "root.pem", "collateral.json"):
                shutil.copy(server.data / "simulation" / name, auditor)
            root = x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)
            found = Audited(server, witnesses, auditor, hashlib.sha256(root).hexdigest())
            found.trust()
            assert exported(server, auditor, "first.json").code == 0
            upload(server, bytes(16))
            until_cosigned(server)
            assert exported(server, auditor, "last.json").code == 0
        yield found


def test_witnesses_prove_the_times_and_that_there_is_no_fork(audited: Audited) -> None:
    server, folder = audited.server, audited.folder
    with server:
        until_served(server)
        assert exported(server, folder, "second.json", "--earlier", "first.json").code == 0

    done = audited.verify("second.json", "--max-age", "3600", "--json")

    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["summary"]["witnesses"].split(", ")) >= 2
    assert all(row["witnessed"] for row in found["entries"])
    first, second = (len(read_evidence((folder / name).read_bytes()).checkpoints) for name in FILES)
    assert second > first >= 1


def test_the_logs_before_and_after_begin_new_log_are_verified_together(audited: Audited) -> None:
    folder, last = audited.folder, read_evidence((audited.folder / "last.json").read_bytes())
    renewed = Server(audited.server.data, arguments=("--begin-new-log", last.origin))
    with renewed:
        again = audited._replace(server=renewed)
        again.trust()
        upload(renewed, bytes(16))
        assert exported(renewed, folder, "new.json").code == 0

    alone = audited.verify("new.json")
    joint = audited.verify("new.json", "--before", "last.json", "--html", "joint.html")
    as_json = audited.verify("new.json", "--before", "last.json", "--json")
    shorter = audited.verify("new.json", "--before", "first.json")

    assert (alone.code, shorter.code) == (4, 4)
    assert "--allow replaces-log" in alone.err
    assert "the file of --before" in shorter.err
    assert joint.code == 0, joint.err
    assert f"log before, {last.origin}" in joint.out
    found, digest = json.loads(as_json.out), hashlib.sha256((folder / "last.json").read_bytes())
    assert (found["outcome"], found["gaps"]) == ("proven", [])
    assert [each["origin"] for each in found["before"]] == [last.origin]
    assert found["filesBefore"] == [{"name": "last.json", "sha256": digest.hexdigest()}]
    page = (folder / "joint.html").read_text()
    assert digest.hexdigest() in page
    assert "of the log before" in page


FILES = ("first.json", "second.json")
TRUST = ("--attestation", "attestation.json", "--simulation-root", "root.pem")


def exported(server: Server, folder: Path, name: str, *words: str) -> Ended:
    address = f"127.0.0.1:{server.port}"
    return run("evidence", "export", address, "-o", name, *TRUST, *words, folder=folder)
