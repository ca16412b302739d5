"""Real clients against the listener: curl, openssl, Go."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers.https import ALICE, BOB, Running, fingerprint, make_pair, running
from support.process.tool import built_with_go, tool
from support.samples.fixed_keys import unused_rsa_key

GO_CLIENT = Path(__file__).parent / "goclient"


@pytest.fixture(name="server", scope="module")
def running_server() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.fixture(name="pair")
def client_pair(tmp_path: Path) -> Path:
    path = tmp_path / "client.pem"
    path.write_bytes(BOB.pem + ALICE.pem + BOB.key_pem)
    return path


def run(*command: str, text: bytes = b"") -> str:
    done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    return (done.stdout + done.stderr).decode("latin-1")


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_posts_small_and_large_bodies(server: Running, pair: Path, version: str) -> None:
    curl, base = tool("curl"), f"https://127.0.0.1:{server.port}"
    options = ["-sk", "-q", "--cert", str(pair), f"--tlsv{version}", "--tls-max", version]
    answers = run(curl, *options, f"{base}/status?x", f"{base}/echo", "-d", "hello")
    assert answers.count(fingerprint(BOB)) == 2
    # curl asks for "100 Continue" before it sends this one, and is refused without sending it.
    large = run(curl, *options, "-w", "%{http_code}", f"{base}/echo", "--data-binary", "@-",
                text=b"x" * 3_000_000)  # fmt: skip
    assert large.endswith("413")
    chunked = run(curl, *options, "-H", "Transfer-Encoding: chunked", f"{base}/echo", "-d", "hello")
    assert fingerprint(BOB) in chunked


@pytest.fixture(name="rsa_server", scope="module")
def running_rsa_server() -> Iterator[Running]:
    with running(server=RSA) as server:
        yield server


# In TLS 1.2 a client has to name the curves of EC keys too; RSA keys leave the groups alone.
RSA = make_pair("rsa", key=unused_rsa_key())
GROUPS = {"X25519": "X25519", "P-256": "ECDH, prime256v1", "P-384": "ECDH, secp384r1"}


@pytest.mark.parametrize(("group", "shown_as"), GROUPS.items())
@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_openssl_agrees_on_every_classical_group(
    rsa_server: Running, tmp_path: Path, group: str, shown_as: str, version: str
) -> None:
    pair = tmp_path / "rsa.pem"
    pair.write_bytes(RSA.pem + RSA.key_pem)
    shown = run(
        tool("openssl"), "s_client", "-connect", f"127.0.0.1:{rsa_server.port}", "-groups", group,
        f"-{version}", "-cert", str(pair), "-key", str(pair), "-ign_eof",
        text=b"GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )  # fmt: skip
    assert fingerprint(RSA) in shown
    assert f"Temp Key: {shown_as}" in shown


def test_openssl_cannot_renegotiate(server: Running) -> None:
    shown = run(
        tool("openssl"), "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2",
        text=b"R\nGET /status HTTP/1.1\r\nHost: a\r\n\r\n",
    )  # fmt: skip
    assert "no renegotiation" in shown.lower()
    assert "200 OK" not in shown


@pytest.fixture(name="go_client", scope="module")
def built_go_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_with_go(GO_CLIENT, tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("certificate", [True, False], ids=["certificate", "none"])
def test_go_keeps_and_resumes_its_connection(
    server: Running, go_client: Path, pair: Path, version: str, *, certificate: bool
) -> None:
    shown = run(
        str(go_client), "-url", f"https://127.0.0.1:{server.port}", "-version", version,
        "-pair", str(pair) if certificate else "",
    )  # fmt: skip
    report = json.loads(shown)
    assert report["statuses"] == [200, 200, 200, 200]
    assert report["reused"] == [False, True, True, False]
    assert report["resumed"]
    assert report["version"] == f"TLS {version}"
    assert report["protocol"] == "HTTP/1.1"
    assert report["group"] == ("X25519MLKEM768" if version == "1.3" else "X25519")
    expected = fingerprint(BOB) if certificate else None
    assert {json.loads(body)["identity"] for body in report["bodies"]} == {expected}
