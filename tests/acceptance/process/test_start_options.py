"""What a real start does with a manifest of its own, a claim, a curve, and a check only."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.process.command import Ended, run
from support.process.server import Client, Server
from support.samples.deployment import manifest, user
from support.samples.fixed_keys import unused_rsa_key

pytestmark = pytest.mark.acceptance


def fingerprint(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def with_recovery_key(raw: bytes) -> bytes:
    key = unused_rsa_key().public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return json.dumps(json.loads(raw) | {"RecoveryKeys": {"alice": pem}}).encode()


def started(data: Path, *arguments: str, **environment: str) -> Server:
    return Server(data, arguments=arguments, environment=environment)


def refused(data: Path, *arguments: str) -> str:
    """Return why a start was refused."""
    ended = run("serve", "--platform", "simulation", "--data-dir", str(data), *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert "Traceback" not in ended.err
    return ended.err


def code(client: Client) -> object:
    return client.get("/api/v2/status").data["code"]


def enforced(client: Client) -> object:
    return client.get("/api/v2/manifest").data["manifestFingerprint"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a manifest."""
    path = tmp_path / "manifest.json"
    path.write_bytes(manifest())
    return path


# --- the startup manifest ---


@pytest.mark.parametrize(
    "name", ["--startup-manifest", "KEYHOUSE_STARTUP_MANIFEST", "EDG_STARTUP_MANIFEST"]
)
def test_a_startup_manifest_is_enforced_from_the_first_answer_on(
    tmp_path: Path, file: Path, name: str
) -> None:
    flag = name.startswith("--")
    server = started(
        tmp_path / "data",
        *((name, str(file)) if flag else ()),
        **({} if flag else {name: str(file)}),
    )
    with server, server.client() as client:
        assert (code(client), enforced(client)) == (3, fingerprint(file.read_bytes()))
        assert client.set_manifest(manifest(1)).status == 409
        root = client.get("/api/v2/quote").data["cert"]
        server.kill()
    with server, server.client() as client:  # an equal one is skipped
        assert (code(client), enforced(client)) == (3, fingerprint(file.read_bytes()))
        assert client.get("/api/v2/quote").data["cert"] == root
        assert len(client.get("/api/v2/update").data["updateLog"]) == 1


def test_another_manifest_than_the_one_that_is_set_ends_the_start(
    tmp_path: Path, file: Path
) -> None:
    data = tmp_path / "data"
    with started(data) as server, server.client() as client:
        assert client.set_manifest(manifest(1)).status == 200
    told = refused(data, "--startup-manifest", str(file))
    assert fingerprint(manifest(1)) in told
    assert fingerprint(file.read_bytes()) in told
    with started(data) as server, server.client() as client:
        assert enforced(client) == fingerprint(manifest(1))


def test_a_startup_manifest_is_never_set_in_recovery_mode(tmp_path: Path, file: Path) -> None:
    data = tmp_path / "data"
    with started(data, "--startup-manifest", str(file)):
        pass
    (data / "sealed_key").unlink()
    server = started(data, "--startup-manifest", str(file))
    with server, server.client() as client:
        assert code(client) == 1
    assert "the startup manifest is not set in recovery mode" in server.logged()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: no such file"),
        (b"", "is empty"),
        (b"{", "manifest.json: 1 problem\n"),
        (b'{"Packages": {}, "Nonsense": 1}', "manifest.json: 3 problems\n"),
    ],
)
def test_a_startup_manifest_that_cannot_be_ends_the_start_and_sets_nothing(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    path, data = tmp_path / "manifest.json", tmp_path / "data"
    if content is not None:
        path.write_bytes(content)
    assert told in refused(data, "--startup-manifest", str(path))
    with started(data) as server, server.client() as client:
        assert code(client) == 2


# --- its recovery secrets ---


def test_recovery_keys_without_a_file_for_their_secrets_end_the_start(
    tmp_path: Path, file: Path
) -> None:
    file.write_bytes(with_recovery_key(file.read_bytes()))
    told = refused(tmp_path / "data", "--startup-manifest", str(file))
    assert "--startup-recovery-file" in told
    with started(tmp_path / "data") as server, server.client() as client:
        assert code(client) == 2


def test_recovery_secrets_are_in_the_file_and_written_again_if_they_were_lost(
    tmp_path: Path, file: Path
) -> None:
    file.write_bytes(with_recovery_key(file.read_bytes()))
    data, secrets = tmp_path / "data", tmp_path / "recovery.json"
    options = ("--startup-manifest", str(file), "--startup-recovery-file", str(secrets))
    with started(data, *options):
        first = secrets.read_bytes()
    assert secrets.stat().st_mode & 0o777 == 0o600
    kept = json.loads(first)
    assert kept["RecoverySecrets"] == kept["recoveryKeys"]
    assert len(base64.b64decode(kept["RecoverySecrets"]["alice"])) == 256
    secrets.unlink()  # as a crash between the two would leave it
    with started(data, *options):
        assert secrets.read_bytes() == first
    assert check(data, *options)[0].code == 0  # it is there because a manifest was set
    with started(data, *options):
        assert secrets.read_bytes() == first
    secrets.write_bytes(b"of another state")
    assert "does not contain the recovery secrets" in refused(data, *options)
    assert secrets.read_bytes() == b"of another state"


def test_a_file_that_is_there_is_not_overwritten_by_a_first_manifest(
    tmp_path: Path, file: Path
) -> None:
    file.write_bytes(with_recovery_key(file.read_bytes()))
    secrets = tmp_path / "recovery.json"
    secrets.write_bytes(b"of another state")
    options = ("--startup-manifest", str(file), "--startup-recovery-file", str(secrets))
    ended, found = check(tmp_path / "data", *options)
    assert ended.code == 1
    assert "exists before a manifest is set" in wrong(found)["--startup-manifest"]
    assert "exists before a manifest is set" in refused(tmp_path / "data", *options)
    assert secrets.read_bytes() == b"of another state"
    with started(tmp_path / "data") as server, server.client() as client:
        assert code(client) == 2


# --- who may be first ---


def test_only_the_claimed_manifest_is_taken(tmp_path: Path) -> None:
    claim = fingerprint(manifest(2)).upper()
    server = started(tmp_path / "data", "--claim-fingerprint", claim)
    with server, server.client() as client:
        answer = client.set_manifest(manifest(1))
        assert answer.status == 403
        message = answer.envelope["message"]
        assert fingerprint(manifest(1)) in message
        assert fingerprint(manifest(2)) in message
        assert code(client) == 2
        assert client.set_manifest(manifest(2)).status == 200
    (tmp_path / "data" / "sealed_key").unlink()
    with server, server.client() as client:  # in recovery mode too
        assert client.set_manifest(manifest(1)).status == 403
        assert client.set_manifest(manifest(2)).status == 200


def test_a_claim_holds_for_the_startup_manifest_too(tmp_path: Path, file: Path) -> None:
    options = ("--claim-fingerprint", "00" * 32, "--startup-manifest", str(file))
    told = refused(tmp_path / "data", *options)
    assert "00" * 32 in told
    assert fingerprint(file.read_bytes()) in told


def test_a_claim_from_the_environment_has_no_effect(tmp_path: Path) -> None:
    server = started(tmp_path / "data", KEYHOUSE_CLAIM_FINGERPRINT="00" * 32)
    with server, server.client() as client:
        assert client.set_manifest(manifest(1)).status == 200


def test_no_new_manifest_in_recovery_mode_if_so_told(tmp_path: Path) -> None:
    server = started(tmp_path / "data", "--no-new-manifest-in-recovery")
    with server, server.client() as client:
        assert client.set_manifest(manifest(1)).status == 200  # a first one is taken
    (tmp_path / "data" / "sealed_key").unlink()
    with server, server.client() as client:
        answer = client.set_manifest(manifest(1))
        assert answer.status == 403
        assert "recovery mode" in answer.envelope["message"]
        assert code(client) == 1
    assert not (tmp_path / "data" / "archive").exists()


@pytest.mark.parametrize("plan", [b"erase\n", b"clear x\n"])
def test_no_new_manifest_by_a_few_bytes_that_the_host_writes(tmp_path: Path, plan: bytes) -> None:
    option = "--no-new-manifest-in-recovery"
    data = tmp_path / "data"
    server = started(data, option)
    with server, server.client() as client:
        assert client.set_manifest(manifest(1)).status == 200
    (data / "sealed_key").unlink()
    (data / "incoming").mkdir(mode=0o700)
    (data / "incoming" / "plan").touch(0o600)
    (data / "incoming" / "plan").write_bytes(plan)
    for _ in range(2):
        told = refused(data, option)
        assert "incoming/plan says" in told
        assert "journal.db" in told
    shutil.rmtree(data / "incoming")
    with server, server.client() as client:
        assert code(client) == 1
        assert client.set_manifest(manifest(2)).status == 403


# --- checking only ---


def check(data: Path, *arguments: str, platform: str = "simulation") -> tuple[Ended, Any]:
    given = ("--platform", platform, "--data-dir", str(data), "--check-config", "--json")
    ended = run("serve", *given, *arguments)
    assert ended.err == ""
    return ended, json.loads(ended.out)


def wrong(found: Any) -> dict[str, str]:
    return {each["about"]: each["text"] for each in found["findings"] if each["isProblem"]}


def test_a_check_of_a_good_configuration_writes_and_starts_nothing(
    tmp_path: Path, file: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    ended, found = check(tmp_path / "data", "--startup-manifest", str(file))
    assert (ended.code, found["ok"], wrong(found)) == (0, True, {})
    assert sorted(tmp_path.iterdir()) == before


def test_a_check_names_everything_that_is_wrong_at_once(tmp_path: Path, file: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    file.write_bytes(b'{"Nonsense": 1}')
    arguments = ("--startup-manifest", str(file), "--claim-fingerprint", "00" * 32)
    ended, found = check(data, *arguments, platform="auto")
    assert (ended.code, found["ok"]) == (1, False)
    assert set(wrong(found)) == {"--platform", "--data-dir", "--startup-manifest"}
    assert "0755" in wrong(found)["--data-dir"]
    assert list(data.iterdir()) == []
    ended, found = check(data, "--dns-names", "a b", platform="tdx")
    assert set(wrong(found)) == {"--platform", "--data-dir", "--dns-names"}
    ended, found = check(tmp_path / "new", "--dns-names", " , ")
    assert wrong(found)["--dns-names"].startswith("--dns-names has no name in it")
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "own" / "recovery_index").touch(mode=0o600)
    ended, found = check(tmp_path / "own", "--store", f"postgresql://u@/d?host={tmp_path}")
    assert set(wrong(found)) == {"--data-dir", "--store"}
    assert "a state of its own" in wrong(found)["--data-dir"]
    ended, found = check(data, "--client-addr", "nowhere")
    assert (ended.code, list(wrong(found))) == (1, ["settings"])
    ended = run("serve", "--check-config", "--data-dir", str(tmp_path / "no" / "data"))
    assert ended.code == 1
    assert "error: --data-dir: " in ended.out
    assert "no is missing" in ended.out


def test_a_check_notes_that_others_may_read_the_password_of_the_database(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("password")
    url = f"postgresql://u@/d?host={tmp_path}"
    arguments = ("--store", url, "--store-password-file", str(password))
    for mode, noted in ((0o644, True), (0o640, True), (0o600, False), (0o400, False)):
        password.chmod(mode)
        _, found = check(tmp_path / "data", *arguments)
        texts = [each["text"] for each in found["findings"] if "password-file" in each["about"]]
        assert [text.split(",")[0] for text in texts] == [f"the file mode is {mode:04o}"] * noted


# --- the curve ---


def openssl(*words: str, given: bytes = b"") -> str:
    done = subprocess.run(
        ["openssl", *words], input=given, capture_output=True, timeout=30, check=False
    )
    return done.stdout.decode() + done.stderr.decode()


def _sha384_chain(leaf_pem: str, issuer_pem: str) -> None:
    leaf = x509.load_pem_x509_certificate(leaf_pem.encode())
    issuer = x509.load_pem_x509_certificate(issuer_pem.encode())
    leaf.verify_directly_issued_by(issuer)
    assert leaf.signature_hash_algorithm is not None
    assert leaf.signature_hash_algorithm.name == "sha384"


def test_a_p384_deployment_is_p384_from_the_handshake_to_the_secrets(tmp_path: Path) -> None:
    content = json.loads(manifest())
    content["Secrets"]["tls"] = {"Type": "cert-ecdsa", "Size": 256, "Shared": True}
    content["Roles"]["read"]["ResourceNames"].append("tls")
    raw = json.dumps(content).encode()
    server = started(tmp_path / "data", "--curve", "P-384")
    with server, server.client() as client, server.client(user("reader")) as reader:
        assert client.set_manifest(raw).status == 200
        shown = openssl("s_client", "-connect", f"127.0.0.1:{server.port}", "-showcerts")
        chain = client.get("/api/v2/quote").data["cert"]
        signature = base64.b64decode(
            client.get("/api/v2/manifest").data["manifestSignatureRootECDSA"]
        )
        secret = reader.get("/api/v2/secrets?s=tls").data["secrets"]["tls"]
    # The last form is of OpenSSL 3.5 and newer.
    assert re.search(r"Server Temp Key|Peer Temp Key|Negotiated TLS1.3 group", shown)
    assert re.search(r"Server public key is 384 bit", shown)
    intermediate, root = re.findall("-----BEGIN.*?-----END CERTIFICATE-----\n", chain, re.DOTALL)
    text = openssl("x509", "-noout", "-text", given=root.encode())
    assert "NIST CURVE: P-384" in text
    assert "Signature Algorithm: ecdsa-with-SHA384" in text
    _sha384_chain(root, root)
    _sha384_chain(intermediate, root)
    public = x509.load_pem_x509_certificate(root.encode()).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    public.verify(signature, raw, ec.ECDSA(hashes.SHA256()))
    leaf = x509.load_der_x509_certificate(base64.b64decode(secret["cert"]))
    _sha384_chain(leaf.public_bytes(Encoding.PEM).decode(), intermediate)


def test_the_curve_has_no_effect_on_existing_state(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(data) as server, server.client() as client:
        assert client.set_manifest(manifest()).status == 200
        chain = client.get("/api/v2/quote").data["cert"]
    with started(data, "--curve", "P-384") as server, server.client() as client:
        assert client.get("/api/v2/quote").data["cert"] == chain
        assert code(client) == 3
    shutil.rmtree(data)
    with started(data, "--curve", "P-384") as server, server.client() as client:
        cert = client.get("/api/v2/quote").data["cert"]
    assert "P-384" in openssl("x509", "-noout", "-text", given=cert.encode())
