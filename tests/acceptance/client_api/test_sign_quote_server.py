"""A real coordinator signs quotes under its platform's root; its collateral can be replaced."""

import base64
import json
import shutil
from collections import Counter
from pathlib import Path
from ssl import DER_cert_to_PEM_cert

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from support.peers.abuse import besieged, open_wires
from support.process.command import refused_start, run
from support.process.server import Client, Reply, Server
from support.samples.deployment import manifest

pytestmark = pytest.mark.acceptance

VECTORS = Path(__file__).parents[2] / "attestation" / "vectors"
GATE = manifest(FeatureGates=["SignQuoteEndpoint"])


def submit(client: Client, quote: bytes) -> Reply:
    sent = {"sgxQuote": base64.b64encode(quote).decode()}
    return client.post("/api/v2/sign-quote", sent)


def own_quote(client: Client) -> tuple[bytes, x509.Certificate]:
    """Return the coordinator's own quote, with its header, and its root certificate."""
    data = client.get("/api/v2/quote?nonce=AAAA").data
    _, root = x509.load_pem_x509_certificates(data["cert"].encode())
    return base64.b64decode(data["quote"]), root


def test_a_quote_of_the_platform_is_signed_in_either_form(running: Server) -> None:
    with running.client() as client:
        quote, root = own_quote(client)
        key = root.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        for form in (quote, quote[16:]):
            data = submit(client, form).data
            assert data["tcbStatus"] == "UpToDate"
            signature = base64.b64decode(data["verificationSignature"])
            text = base64.b64encode(form) + b"UpToDate"
            key.verify(signature, text, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("name", ["sgx_quote", "tdx_quote", "tdx_quote_outdated"])
def test_quotes_of_hardware_are_refused_by_a_simulation(running: Server, name: str) -> None:
    with running.client() as client:
        reply = submit(client, (VECTORS / name).read_bytes())
    assert (reply.status, reply.envelope["status"]) == (400, "fail")
    assert "root" in reply.envelope["data"]["sgxQuote"]


def test_no_librarys_words_about_an_anonymous_clients_certificate_come_into_the_log(
    tmp_path: Path,
) -> None:
    """The library warns of serial numbers below 1: as plain text, on standard error."""
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(GATE).status == 200
        quote, _ = own_quote(client)
        begin = quote.index(b"-----BEGIN CERTIFICATE-----")
        leaf = x509.load_pem_x509_certificates(quote[begin:].rstrip(b"\0"))[0]
        der = leaf.public_bytes(Encoding.DER)
        serial = leaf.serial_number.to_bytes(leaf.serial_number.bit_length() // 8 + 1)
        number = der.index(serial)
        odd = der[:number] + bytes([serial[0] | 0x80]) + der[number + 1 :]
        sent = quote.replace(leaf.public_bytes(Encoding.PEM), DER_cert_to_PEM_cert(odd).encode())
        assert len(sent) == len(quote)
        assert submit(client, sent).status == 400
        assert server.stop() == 0
    for line in server.logged().splitlines():
        json.loads(line)


def test_collateral_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    with first, first.client() as client:
        assert client.set_manifest(GATE).status == 200
    bundle = tmp_path / "bundle.json"
    shutil.copy(VECTORS / "sgx_quote_collateral.json", bundle)
    server = Server(tmp_path / "data", environment={"KEYHOUSE_COLLATERAL": str(bundle)})
    with server, server.client() as client:
        quote, _ = own_quote(client)
        refused = submit(client, quote)
        assert (refused.status, refused.envelope["status"]) == (400, "fail")
        shutil.copy(tmp_path / "data/simulation/collateral.json", tmp_path / "new")
        (tmp_path / "new").replace(bundle)
        # The same quote without its header: the refusal of the other form is remembered a while.
        assert submit(client, quote[16:]).status == 200
        bundle.write_text("{")
        assert submit(client, quote[16:]).status == 200
        bundle.unlink()
        assert submit(client, quote[16:]).status == 200
    assert "the collateral stays as it was" in server.logged()


def test_a_start_with_collateral_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    for path in (broken, tmp_path / "missing.json", tmp_path):
        refused = refused_start(tmp_path / "data", "--collateral", str(path))
        assert str(path) in refused.error
        words = ("--platform", "simulation", "--data-dir", str(tmp_path / "other"))
        checked = run("serve", *words, "--collateral", str(path), "--check-config")
        assert checked.code == 1
        assert "error: --collateral: " in checked.out


def test_a_flood_of_quotes_is_queued_or_told_to_come_again(tmp_path: Path) -> None:
    """80 connections submit at once, true quotes and large rubbish; reads stay served meanwhile."""
    with besieged(tmp_path, GATE, growth=200) as server:
        with server.client() as client:
            quote, _ = own_quote(client)
        bodies = [
            b'{"sgxQuote":"%b"}' % base64.b64encode(each)
            for each in (quote, quote[16:], bytes(700_000), b"\x03\0\x02\0" + bytes(60_000))
        ]
        with open_wires(server, 80) as wires, server.client() as client:
            for number, wire in enumerate(wires):
                body = bodies[number % len(bodies)]
                wire.send(b"POST /api/v2/sign-quote HTTP/1.1\r\nHost: a\r\n")
                wire.send(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert client.get("/api/v2/status").status == 200
            statuses = Counter(int(wire.tls.recv(65536)[9:12]) for wire in wires)
    assert set(statuses) <= {200, 400, 503}
    assert statuses[200]
    assert statuses[400]
