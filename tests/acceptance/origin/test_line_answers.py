"""The line that coordinators answer, and that a new log and a recovery keep."""

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.peers.sdk import trust_in_server
from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable
from support.samples.updates import Api

from keyhouse.attestation import Verifier, read_collateral
from keyhouse.attestation.quote.binding import (
    entry_report_data,
    line_report_data,
    require_report_data,
)
from keyhouse.manifest import fingerprint
from keyhouse.transparency.line import CodeEntry, NewLogEntry, RecoveredEntry, hash_of, read_line
from keyhouse.transparency.note import SignedNote

pytestmark = pytest.mark.acceptance

GOOD = holder("good")
MANIFESTS = [recoverable([GOOD], secrets=count) for count in (3, 4, 5)]
NONCE = bytes(range(16))
PATH = "/api/v2/line?nonce=" + base64.urlsafe_b64encode(NONCE).decode()


def root_of(client: Client) -> bytes:
    pem = client.get("/api/v2/quote").data["cert"].encode()
    return x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)


def test_the_answer_has_each_manifest_with_its_quote_and_binds_the_nonce(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client, server.client(user("admin")) as admin:
        assert client.get(PATH).status == 409  # there is no manifest
        assert client.set_manifest(MANIFESTS[0]).status == 200
        for raw in MANIFESTS[1:]:
            assert Api(2).update(admin, raw).status == 200
        found, root = client.get(PATH).data, root_of(client)
        trust = trust_in_server(server)
        assert not callable(trust.collateral)
        verifier, now = Verifier(trust.root_ca_der), datetime.now(UTC)
        line = read_line([base64.b64decode(each["entry"]) for each in found["entries"]], root)
        assert line.manifests == tuple(hashlib.sha256(raw).hexdigest() for raw in MANIFESTS)
        answer = verifier.verify(base64.b64decode(found["quote"]), trust.collateral, now)
        text = SignedNote.read(found["checkpoint"].encode()).text
        require_report_data(answer.report_data, line_report_data(root, NONCE, line.last_hash, text))
        for raw, each in zip(line.raw, found["entries"], strict=True):
            quote = client.get(f"/api/v2/log/object/{each['quote']}").body
            collateral = client.get(f"/api/v2/log/object/{each['collateral']}").body
            verdict = verifier.verify(quote, read_collateral(collateral), now)
            require_report_data(verdict.report_data, entry_report_data(root, hash_of(raw)))
        assert client.get("/api/v2/line?nonce=AAAA").status == 400


def test_a_new_log_and_a_recovery_keep_the_line_and_its_proofs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = Server(data)
    with server, server.client() as client, server.client(user("admin")) as admin:
        shares = ciphertexts_of(client.set_manifest(MANIFESTS[0]))
        assert Api(2).update(admin, MANIFESTS[1]).status == 200
        root, origin = root_of(client), client.get("/api/v2/log/key").data["origin"]
    with Server(data, arguments=("--begin-new-log", origin)) as server:
        pass
    (data / "sealed_key").unlink()
    with Server(data) as server, server.client() as client:
        share = GOOD.share(shares[GOOD.name])
        assert hand_in(client, share, GOOD.sign(share)).status == 200
        for raw in MANIFESTS[:2]:  # one of them may admit the code of a later entry
            assert client.get(f"/api/v2/log/object/{fingerprint(raw)}").body == raw
        found = client.get(PATH).data["entries"]
    line = read_line([base64.b64decode(each["entry"]) for each in found], root)
    assert line.manifests == tuple(hashlib.sha256(raw).hexdigest() for raw in MANIFESTS[:2])
    later = line.entries[2:]
    assert [type(each) for each in later] == [NewLogEntry, RecoveredEntry]
    assert not any(isinstance(each, CodeEntry) for each in line.entries)


def test_a_recovery_without_the_quotes_of_the_line_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Server(data) as server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(MANIFESTS[0]))
        quote = client.get(PATH).data["entries"][0]["quote"]
    (data / "sealed_key").unlink()
    (lost,) = data.glob(f"log/*/object/{quote}")
    raw = lost.read_bytes()
    lost.unlink()
    with Server(data) as server, server.client() as client:
        share = GOOD.share(shares[GOOD.name])
        refused = hand_in(client, share, GOOD.sign(share))
        assert refused.status == 400
        assert b"the quote of the manifest" in refused.body
        assert b"is missing (restore the objects" in refused.body
    lost.write_bytes(raw)
    lost.chmod(0o600)
    with Server(data) as server, server.client() as client:
        share = GOOD.share(shares[GOOD.name])
        assert hand_in(client, share, GOOD.sign(share)).status == 200
