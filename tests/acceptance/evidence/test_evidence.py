"""Evidence of a real coordinator's history: exported, and verified by someone with no network."""

import base64
import gzip
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.peers.canaries import Canaries
from support.peers.sdk import trust_in_server
from support.process.command import Ended, run
from support.process.server import Server
from support.process.start import KEYHOUSE
from support.process.tool import tool
from support.samples.deployment import user
from support.samples.updates import Api, raise_version, together

from keyhouse.base.secret import Secret
from keyhouse.client import Coordinator, PemIdentity
from keyhouse.evidence.bundle import read_evidence
from keyhouse.manifest import fingerprint

pytestmark = pytest.mark.acceptance

ALLOWED = ("--allow", "not-signed")
"""Gaps of the file: three people used curl."""

UPLOADED = b"an uploaded value: a canary"
FIRST, SECOND, THIRD = (together(word=word) for word in ("first", "second", "third"))


class Exported(NamedTuple):
    """An evidence file, what it is verified with, and the state directory that it is of."""

    folder: Path
    data: Path
    root: str
    printed: dict[str, Any]

    @property
    def file(self) -> Path:
        return self.folder / "a.evidence.json"

    def verify(self, *words: str, file: Path | None = None, pinned: bool = True) -> Ended:
        """Return how ``keyhouse evidence verify`` ended, in a folder with these files alone."""
        pin = ("--root-fingerprint", self.root, *ALLOWED) if pinned else ()
        given = ("--attestation", "attestation.json", "--simulation-root", "root.pem")
        name = str(file or self.file)
        return run("evidence", "verify", name, *given, *pin, *words, folder=self.folder)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("evidence")
    server, api = Server(folder / "data"), Api(2)
    with server:
        with server.client() as client:
            assert client.set_manifest(FIRST).status == 200
            pem = client.get("/api/v2/quote").data["cert"].encode()
        with server.client(user("writer")) as client:
            value = {"note": UPLOADED}
            assert client.upload(value).status == 200
            assert client.upload(value).status == 200
        with server.client(user("releaser")) as client:
            assert api.update(client, raise_version(4)).status == 200
        with server.client(user("alice")) as client:
            assert api.update(client, SECOND).status == 200
        with server.client(user("bob")) as client:
            assert api.acknowledge(client, SECOND).status == 200
        for name, agree in (("carol", Coordinator.update), ("alice", Coordinator.acknowledge)):
            signer = PemIdentity(user(name).pem, Secret(user(name).key_pem))
            where = f"127.0.0.1:{server.port}"
            with Coordinator.connect(where, trust_in_server(server), signer) as session:
                agree(session, THIRD)
        server.kill()
    auditor = folder / "auditor"
    auditor.mkdir()
    simulation = folder / "data" / "simulation"
    for name in ("attestation.json", "root.pem"):
        (auditor / name).write_bytes((simulation / name).read_bytes())
    roots = ("--simulation-root", str(simulation / "root.pem"))
    trust = ("--attestation", str(simulation / "attestation.json"), *roots)
    address = f"127.0.0.1:{server.port}"
    with server:
        file = str(auditor / "a.evidence.json")
        done = run("evidence", "export", address, "-o", file, *trust, "--json")
        assert done.code == 0, done.err
        proof = str(auditor / "start.tlog-proof")
        home = {"XDG_CONFIG_HOME": str(auditor)}  # a context names the address
        assert run("context", "add", "it", "--address", address, *trust, env=home).code == 0
        done_proof = run("evidence", "proof", "2", "-o", proof, env=home)
        assert done_proof.code == 0, done_proof.err
    root = x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)
    return Exported(
        auditor, folder / "data", hashlib.sha256(root).hexdigest(), json.loads(done.out)
    )


def test_the_whole_history_is_proven(exported: Exported) -> None:
    done = exported.verify("--no-witnesses", "--json")

    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert exported.printed["root"] == exported.root
    assert (found["verified"], found["outcome"]) == (True, "proven-except-allowed-gaps")
    assert [(each["name"], each["entries"], each["allowed"]) for each in found["gaps"]] == [
        ("no-witnesses", [], True),
        ("not-signed", [5, 6, 7], True),
    ]
    assert [(each["name"], each["entries"]) for each in found["claims"]] == [("upload", [3, 4])]
    assert found["simulation"]
    assert found["summary"]["manifest in force"] == fingerprint(THIRD)
    texts = [row["text"] for row in found["entries"]]
    assert texts[3:-1] == [
        "writer uploaded: note, claimed by the coordinator",
        "releaser raised app to 4, not signed",
        f"alice proposed manifest {fingerprint(SECOND)[:16]}: 2 users have to agree, not signed",
        f"bob agreed to {fingerprint(SECOND)[:16]}: enough users have agreed, not signed",
        (
            f"manifest {fingerprint(SECOND)[:16]} in force, agreed to by alice, bob (0 of 2"
            ' signed), lowers the security version of "app" from 4 to 3'
        ),
        f"carol proposed manifest {fingerprint(THIRD)[:16]}: 2 users have to agree",
        f"alice agreed to {fingerprint(THIRD)[:16]}: enough users have agreed",
        f"manifest {fingerprint(THIRD)[:16]} in force, agreed to by carol, alice (2 of 2 signed)",
    ]
    assert any("no witness" in each for each in found["notProven"])
    assert not any("start" in each for each in found["notProven"])


def test_no_connection_is_made(exported: Exported) -> None:
    words = ("evidence", "verify", exported.file.name, "--no-witnesses", "--root-fingerprint")
    trust = ("--attestation", "attestation.json", "--simulation-root", "root.pem", *ALLOWED)
    traced = (tool("strace"), "-f", "-e", "trace=socket,connect", "-o", "trace")

    done = subprocess.run(
        [*traced, KEYHOUSE, *words, exported.root, *trust],
        cwd=exported.folder,
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    trace = (exported.folder / "trace").read_text()
    assert "exited with 0" in trace
    assert "AF_INET" not in trace


def test_the_first_manifest_can_be_pinned_instead(exported: Exported) -> None:
    allowed = ("--no-witnesses", *ALLOWED, "--allow", "root-not-pinned")
    good = (*allowed, "--manifest-fingerprint", fingerprint(FIRST))
    other = ("--no-witnesses", "--manifest-fingerprint", fingerprint(SECOND))

    assert exported.verify(*good, pinned=False).code == 0
    done = exported.verify(*other, pinned=False)

    assert done.code == 4
    assert "deployment" in done.err


@pytest.mark.parametrize(
    ("words", "pinned", "why"),
    [
        ((), True, "--policy and --no-witnesses are missing"),
        (("--no-witnesses",), False, "--root-fingerprint or --manifest-fingerprint"),
        (("--no-witnesses", "--max-age", "1"), True, "only witnesses prove a time"),
        (("--no-witnesses", "--manifest-fingerprint", "0" * 64), True, "two deployments"),
        (("--no-witnesses", "--manifest-fingerprint", "0"), False, "64 hex digits"),
    ],
)
def test_what_is_trusted_has_to_be_said(
    exported: Exported, words: tuple[str, ...], *, pinned: bool, why: str
) -> None:
    done = exported.verify(*words, pinned=pinned)

    assert done.code == 2
    assert why in done.err


def test_what_could_not_be_checked_is_refused_by_its_name(exported: Exported) -> None:
    pin = ("--root-fingerprint", exported.root, "--no-witnesses")

    done = exported.verify(*pin, pinned=False)
    as_json = exported.verify(*pin, "--json", pinned=False)

    assert (done.code, as_json.code) == (4, 4)
    assert "NOT PROVEN: gaps that are not allowed: not-signed" in done.out
    assert "--allow not-signed" in done.err
    assert json.loads(as_json.err)["error"]["reason"] == "gaps"
    found = json.loads(as_json.out)
    assert (found["verified"], found["outcome"]) == (False, "gaps-not-allowed")


def test_an_unknown_gap_is_an_error_that_lists_the_names(exported: Exported) -> None:
    done = exported.verify("--no-witnesses", "--allow", "not-singed")

    assert done.code == 2
    assert '"not-singed"' in done.err
    assert "not-signed, cancelled-by-coordinator" in done.err


def test_another_root_or_code_is_refused(exported: Exported) -> None:
    other = json.loads((exported.folder / "attestation.json").read_bytes())
    other["UniqueID"] = "0" * 64
    (exported.folder / "other.json").write_text(json.dumps(other))
    elsewhere = exported._replace(root="0" * 64)

    code = exported.verify("--no-witnesses", "--attestation", "other.json")
    root = elsewhere.verify("--no-witnesses", "--json")

    assert (code.code, root.code) == (4, 4)
    assert "hardware" in code.err
    assert json.loads(root.err)["error"]["reason"] == "deployment"


def test_a_compressed_file_is_the_same(exported: Exported) -> None:
    packed = exported.folder / "a.evidence.json.gz"
    packed.write_bytes(gzip.compress(exported.file.read_bytes()))

    assert exported.verify("--no-witnesses", file=packed).code == 0


def test_a_page_has_no_scripts_and_says_what_is_not_proven(exported: Exported) -> None:
    done = exported.verify("--no-witnesses", "--html", "report.html")
    assert done.code == 0
    assert "PROVEN" in done.out
    assert "NO WITNESSES" in done.out
    assert "NOT PROVEN:" in done.out
    page = (exported.folder / "report.html").read_text()

    assert "<script" not in page
    assert "<svg" in page
    assert "default-src 'none'" in page
    assert "Not proven" in page
    shown = run("evidence", "show", "a.evidence.json", folder=exported.folder)
    assert shown.code == 0
    assert "NOT VERIFIED" in shown.out


def test_a_log_that_lacks_an_object_is_not_exported(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(FIRST).status == 200
    simulation = tmp_path / "data" / "simulation"
    roots = ("--simulation-root", str(simulation / "root.pem"))
    trust = ("--attestation", str(simulation / "attestation.json"), *roots)
    (objects,) = (tmp_path / "data" / "log").glob("*/object")
    (objects / fingerprint(FIRST)).unlink()

    with server:
        address = f"127.0.0.1:{server.port}"
        done = run("evidence", "export", address, "-o", "a.json", *trust, folder=tmp_path)

    assert done.code != 0
    assert f"object/{fingerprint(FIRST)}" in done.err
    assert not (tmp_path / "a.json").exists()


def test_a_proof_of_one_entry_is_in_the_form_of_others(exported: Exported) -> None:
    content = (exported.folder / "start.tlog-proof").read_bytes()

    head, _, note = content.partition(b"\n\n")
    version, extra, index, *hashes = head.split(b"\n")
    assert (version, index) == (b"c2sp.org/tlog-proof@v1", b"index 2")
    assert b'"kind":"started"' in base64.b64decode(extra.removeprefix(b"extra "))
    assert len(hashes) == 4
    assert note.decode().startswith(read_evidence(exported.file.read_bytes()).origin)


def test_nothing_secret_is_in_it(exported: Exported) -> None:
    canaries = Canaries({"uploaded": UPLOADED})
    evidence = read_evidence(exported.file.read_bytes())
    parts = [each for each in evidence.entries if isinstance(each, bytes)]

    assert canaries.found_in(exported.file.read_bytes()) == []
    assert all(canaries.found_in(each) == [] for each in (*parts, *evidence.objects.values()))
    assert canaries.found_in_files([exported.data / "log"]) == []


def test_a_library_says_nothing_of_an_odd_certificate(exported: Exported) -> None:
    document = json.loads(exported.file.read_bytes())
    root = bytearray(base64.b64decode(document["root"]))
    serial = root.index(b"\xa0\x03\x02\x01\x02\x02") + 7
    root[serial] = 0x81  # negative
    document["root"] = base64.b64encode(root).decode()
    odd = exported.folder / "odd.json"
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    odd.write_text(f"{plain}\n")

    done = run("evidence", "show", "odd.json", folder=exported.folder)

    assert done.code == 4
    assert done.err.startswith("error: not proven, at the step log key"), done.err
