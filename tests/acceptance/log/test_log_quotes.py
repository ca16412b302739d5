"""Quotes about the transparency log: which code started, and which head there is."""

import base64
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.peers.sdk import trust_in_server
from support.process.server import Client, Server
from support.public_log import Published, read_log
from support.samples.deployment import manifest, user

from keyhouse.attestation import (
    IdentityRefusedError,
    Verdict,
    Verifier,
    head_report_data,
    read_collateral,
    start_report_data,
)
from keyhouse.attestation.quote.binding import require_report_data
from keyhouse.client import Trust
from keyhouse.transparency.leaf import StartedLeaf
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tree import Frontier, leaf_hash

pytestmark = pytest.mark.acceptance


class Seen(NamedTuple):
    """What an outsider sees of a coordinator."""

    client: Client
    trust: Trust

    @property
    def root(self) -> bytes:
        pem = self.client.get("/api/v2/quote").data["cert"].encode()
        return x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)

    def log(self) -> Published:
        key = self.client.get("/api/v2/log/key").data
        signature = base64.b64decode(key["signature"])
        return read_log(self.part, self.root, key["verifierKey"], signature)

    def part(self, path: str) -> bytes:
        reply = self.client.get(f"/api/v2/log/{path}")
        assert reply.status == 200, path
        return reply.body

    def verdict(self, quote: bytes, collateral: bytes = b"") -> Verdict:
        found = read_collateral(collateral) if collateral else self.trust.collateral
        assert not callable(found)
        return Verifier(self.trust.root_ca_der).verify(quote, found, datetime.now(UTC))

    def asked(self, path: str, nonce: bytes) -> dict[str, str]:
        """Return the data of the quote at ``path`` for ``nonce``."""
        text = base64.urlsafe_b64encode(nonce).decode()
        reply = self.client.get(f"{path}?nonce={text}")
        assert reply.status == 200
        return dict(reply.data)


def starts(log: Published) -> list[tuple[StartedLeaf, Frontier]]:
    """Return each leaf of a start, and what its quote has to bind beside the root."""
    found = []
    for number, each in enumerate(log.leaves):
        if isinstance(each, StartedLeaf):
            found.append((each, Frontier().extended(map(leaf_hash, log.entries[:number]))))
    return found


def bound(root: bytes, started: StartedLeaf, before: Frontier) -> bytes:
    return start_report_data(root, bytes.fromhex(started.instance), before.size, before.root)


def test_each_start_has_a_quote_that_verifies_from_the_log_alone(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    with server, server.client(user("writer")) as client:
        assert client.upload({"note": b"between"}).status == 200
        server.kill()
    with server, server.client() as client:
        seen = Seen(client, trust_in_server(server))
        root, found = seen.root, starts(seen.log())
        assert len(found) == 3
        for started, before in found:
            collateral = seen.part(f"object/{started.collateral}")
            verdict = seen.verdict(seen.part(f"object/{started.quote}"), collateral)
            require_report_data(verdict.report_data, bound(root, started, before))
            assert verdict.mrenclave.hex() == started.unique
            assert verdict.mrsigner.hex() == started.signer
            others = [each for each in found if each != (started, before)]
            for other, earlier in others:
                with pytest.raises(IdentityRefusedError):
                    require_report_data(verdict.report_data, bound(root, other, earlier))


def test_a_head_quote_is_about_this_checkpoint_and_this_nonce(running: Server) -> None:
    with running.client() as client:
        seen = Seen(client, trust_in_server(running))
        nonce = os.urandom(16)
        data = seen.asked("/api/v2/log/quote", nonce)
        note = data["checkpoint"].encode()
        assert note == seen.part("checkpoint")
        text = SignedNote.read(note).text
        found = seen.verdict(base64.b64decode(data["quote"])).report_data
        require_report_data(found, head_report_data(seen.root, nonce, text))
        for other in (
            head_report_data(seen.root, os.urandom(16), text),
            head_report_data(seen.root, nonce, text.replace(b"\n", b"0\n", 2)),
            head_report_data(b"another root", nonce, text),
        ):
            with pytest.raises(IdentityRefusedError):
                require_report_data(found, other)


@pytest.mark.parametrize("size", [0, 1, 15, 1025])
def test_a_head_quote_needs_a_nonce_of_its_size(running: Server, size: int) -> None:
    text = base64.urlsafe_b64encode(bytes(size)).decode()
    with running.client() as client:
        for query in {f"?nonce={text}", "" if size == 0 else f"?nonce={text}"}:
            reply = client.get(f"/api/v2/log/quote{query}")
            assert reply.status == 400
            assert b'"data":{"nonce":' in reply.body


def test_caller_nonce_cannot_make_a_start_quote(running: Server) -> None:
    with running.client() as client:
        seen = Seen(client, trust_in_server(running))
        root, log = seen.root, seen.log()
        wanted = [bound(root, *each) for each in starts(log)]
        nonces = [part for each in wanted for part in (each, each[:32], each[32:])]
        nonces += [bytes.fromhex(each.instance) for each, _ in starts(log)]
        nonces += [b"keyhouse start v1\0" + nonce for nonce in nonces]
        quotes = [client.get("/api/v2/quote").data["quote"]]
        for nonce in nonces:
            quotes.append(seen.asked("/api/v2/quote", nonce)["quote"])
            quotes.append(seen.asked("/api/v2/log/quote", nonce)["quote"])
        for quote in quotes:
            found = seen.verdict(base64.b64decode(quote)).report_data
            for each in wanted:
                assert found[32:] != each[32:]
                with pytest.raises(IdentityRefusedError):
                    require_report_data(found, each)
