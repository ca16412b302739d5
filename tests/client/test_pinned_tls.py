"""The pin holds over memory buffers as well, as event loops use them."""

import ssl
from pathlib import Path

import pytest
from support.peers.peer import Certified, certify

from keyhouse.client import TrustError
from keyhouse.client.http.pinned_tls import pinned_context, watching_context


def shake(client: ssl.SSLContext, served: Certified, folder: Path) -> None:
    """Let both sides of a handshake talk until they are done."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(served.pem)
    key.write_bytes(served.key_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname="localhost"),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_the_pinned_certificate_is_let_through(tmp_path: Path) -> None:
    root = certify("Root")
    shake(pinned_context(root.der), root, tmp_path)


def test_a_certificate_by_the_pinned_one_is_refused(tmp_path: Path) -> None:
    root = certify("Root")
    with pytest.raises(TrustError):
        shake(pinned_context(root.der), certify("Workload", root), tmp_path)


def test_a_watching_context_reports_each_certificate(tmp_path: Path) -> None:
    seen: list[bytes] = []
    root = certify("Root")
    shake(watching_context(seen.append), root, tmp_path)
    assert set(seen) == {root.der}


def test_another_certificate_fails_at_the_chain_even_if_nobody_compares(tmp_path: Path) -> None:
    """The second line of defence, should the comparison ever be skipped."""
    context = pinned_context(certify("Root").der)
    context.check = lambda _leaf: None
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context, certify("Root"), tmp_path)
