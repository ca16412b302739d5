"""A coordinator is trusted for its quote, its certificate and its nonce together, or not at all."""

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from support.peers.peer import Peer, certify, serving
from support.samples.odd_certificates import odd_certificates
from support.samples.snp_vms import VM

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    ExpectedIdentity,
    Measurements,
    TcbStatus,
    read_form,
)
from keyhouse.client import (
    AnswerUnreadableError,
    CallRefusedError,
    TrustedCoordinator,
    TrustError,
    UnreachableError,
    verify_coordinator,
)
from keyhouse_simulation import (
    COORDINATOR,
    QuotedEnclave,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)

NOW = datetime.now(UTC)
OTHER = Measurements(unique_id=bytes(32), signer_id=bytes(32), product_id=1, security_version=1)


def platform(parameters: QuoteParameters | None = None) -> SimulatedPlatform:
    return SimulatedPlatform(make_machine(NOW), parameters)


def verify(
    peer: Peer,
    folder: Path,
    *,
    expected: ExpectedIdentity | None = None,
    root_ca: bytes | None = None,
    nonce: bytes | None = None,
    now: datetime | None = None,
) -> TrustedCoordinator:
    with serving(peer, folder) as address:
        return verify_coordinator(
            address,
            expected=expected or platform().expected_identity,
            root_ca_der=root_ca or peer.platform.root_ca,
            collateral=peer.platform.collateral,
            nonce=nonce,
            now=now,
            timeout=10,
        )


def test_the_expected_coordinator_is_trusted_and_its_root_returned(tmp_path: Path) -> None:
    peer = Peer.new()
    trusted = verify(peer, tmp_path)
    assert trusted.root_der == peer.root.der
    assert trusted.intermediate_der == peer.intermediate.der
    assert trusted.verdict.mrenclave == COORDINATOR.unique_id
    assert len(trusted.nonce) == 32
    assert read_form(trusted.quote).raw


def test_each_verification_asks_with_a_new_nonce(tmp_path: Path) -> None:
    peer = Peer.new()
    first, second = verify(peer, tmp_path), verify(peer, tmp_path)
    assert first.nonce != second.nonce
    assert len({path for _, path, _ in peer.requests}) == 2


def test_a_nonce_that_was_given_is_the_one_that_is_bound(tmp_path: Path) -> None:
    nonce = b"\xff\xfe\xfd" * 11
    assert verify(Peer.new(), tmp_path, nonce=nonce).nonce == nonce
    expected = msgspec.structs.replace(platform().expected_identity, nonce=b"from the file")
    assert verify(Peer.new(), tmp_path, expected=expected).nonce == b"from the file"


def test_a_quote_played_back_is_refused(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.answer_nonce = b"an earlier one"
    with pytest.raises(TrustError, match="nonce"):
        verify(peer, tmp_path)


def test_a_coordinator_in_a_confidential_vm_of_amd_is_refused_plainly(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.bend_quote = lambda _: peer.platform.snp_quote(VM, bytes(64))
    with pytest.raises(TrustError, match="SEV-SNP"):
        verify(peer, tmp_path)


def test_a_quote_for_another_root_certificate_is_refused(tmp_path: Path) -> None:
    true, liar = Peer.new(), Peer.new()
    liar.replies["GET", "/api/v2/quote"] = true.quote_reply(b"n")
    with pytest.raises(TrustError, match="not the root of its quote"):
        verify(liar, tmp_path, nonce=b"n", root_ca=true.platform.root_ca)


def test_a_workload_that_relays_the_coordinators_quote_is_refused(tmp_path: Path) -> None:
    peer = Peer.new()
    workload = certify("Root", peer.intermediate, is_ca=False)
    peer.served = (workload, peer.intermediate, peer.root)
    with pytest.raises(TrustError, match="not the root of its quote"):
        verify(peer, tmp_path)


def test_a_simulated_quote_is_refused_under_intels_root(tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="pinned root"):
        verify(Peer.new(), tmp_path, root_ca=INTEL_SGX_ROOT)


def test_a_quote_of_another_simulated_vendor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="pinned root"):
        verify(Peer.new(), tmp_path, root_ca=platform().root_ca)


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda quote: quote[:at] + bytes([quote[at] ^ 1]) + quote[at + 1 :]


@pytest.mark.parametrize("at", [0, 8, 16, 40, 80, 140, 300, 390, 460, 900, 1400, 2000, 3000, -10])
def test_a_quote_with_one_changed_bit_is_refused(tmp_path: Path, at: int) -> None:
    peer = Peer.new()
    peer.bend_quote = flip(at)
    with pytest.raises(TrustError):
        verify(peer, tmp_path)


def test_a_missing_quote_and_bytes_after_it_are_refused(tmp_path: Path) -> None:
    for bend in (lambda _: b"", lambda quote: quote + b"\0", lambda quote: quote[16:] + b"\0"):
        peer = Peer.new()
        peer.bend_quote = bend
        with pytest.raises(TrustError, match="malformed"):
            verify(peer, tmp_path)


def test_a_null_quote_is_not_an_answer(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/quote"] = (
        200,
        b'{"status":"success","data":{"cert":"x","quote":null}}',
    )
    with pytest.raises(AnswerUnreadableError):
        verify(peer, tmp_path)


def test_expired_collateral_is_refused_and_called_so(tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="expired"):
        verify(Peer.new(), tmp_path, now=NOW + timedelta(days=500))
    with pytest.raises(TrustError, match="not valid yet"):
        verify(Peer.new(), tmp_path, now=NOW - timedelta(days=500))


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        (QuoteParameters(enclave=QuotedEnclave(measurements=OTHER)), "UniqueID"),
        (QuoteParameters(enclave=QuotedEnclave(debug=True)), "debug"),
        (QuoteParameters(tcb_info=TcbInfo(status=TcbStatus.OUT_OF_DATE)), "OutOfDate"),
        (QuoteParameters(tcb_info=TcbInfo(pce_id=b"\0\1")), "pceId"),
        (QuoteParameters(tcb_info=TcbInfo(evaluation_number=2)), "evaluation numbers"),
    ],
    ids=["other enclave", "debug", "out of date", "pceId", "evaluation numbers"],
)
def test_a_coordinator_that_is_not_as_expected_is_refused(
    tmp_path: Path, parameters: QuoteParameters, problem: str
) -> None:
    with pytest.raises(TrustError, match=problem):
        verify(Peer.new(platform(parameters)), tmp_path)


def strange_chains(peer: Peer) -> dict[str, tuple[str, str]]:
    root, intermediate = peer.root.pem.decode(), peer.intermediate.pem.decode()
    other = certify("Other")
    foreign = certify("Intermediate", other).pem.decode()
    no_ca = certify("Intermediate", peer.root, is_ca=False).pem.decode()
    return {
        "root first": (root + intermediate, "not the root of its quote"),
        "root alone": (root, "has 1 certificates"),
        "three": (intermediate + intermediate + root, "has 3 certificates"),
        "foreign intermediate": (foreign + root, "not signed"),
        "intermediate is no CA": (no_ca + root, "is not a CA"),
        "text between": (intermediate + "hello\n" + root, "chain"),
        "nothing": ("", "chain"),
        "another root": (foreign + other.pem.decode(), "not the root of its quote"),
    }


@pytest.mark.parametrize("case", sorted(strange_chains(Peer.new())))
def test_any_other_chain_than_intermediate_and_root_is_refused(tmp_path: Path, case: str) -> None:
    peer = Peer.new()
    chain, problem = strange_chains(peer)[case]
    peer.bend_chain = lambda _: chain
    with pytest.raises(TrustError, match=problem):
        verify(peer, tmp_path)


def test_an_intermediate_that_no_library_takes_is_refused_as_any_other(tmp_path: Path) -> None:
    """Whoever answers has made the chain, and is not trusted yet."""
    peer = Peer.new()
    pems = [
        ssl.DER_cert_to_PEM_cert(odd)
        for what, odd in odd_certificates(peer.intermediate.certificate, peer.root.key)
        if "key" not in what and "curve" not in what  # nothing is done with its key
    ]
    with serving(peer, tmp_path) as address:
        for pem in pems:
            peer.bend_chain = lambda _, pem=pem: pem + peer.root.pem.decode()  # type: ignore[misc]
            with pytest.raises(TrustError, match="intermediate"):
                verify_coordinator(
                    address,
                    expected=platform().expected_identity,
                    root_ca_der=peer.platform.root_ca,
                    collateral=peer.platform.collateral,
                    timeout=10,
                )


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/quote"] = (307, b"{}")
    peer.extra_headers["Location"] = "/api/v2/elsewhere"
    with pytest.raises(AnswerUnreadableError):
        verify(peer, tmp_path)
    assert len(peer.requests) == 1


def test_a_huge_or_compressed_answer_is_refused(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/quote"] = (200, b" " * (2 << 20))
    with pytest.raises(AnswerUnreadableError, match=r"\d{7} bytes"):
        verify(peer, tmp_path)
    peer.replies["GET", "/api/v2/quote"] = (200, b"x")
    peer.extra_headers["Content-Encoding"] = "gzip"
    with pytest.raises(AnswerUnreadableError, match="compressed"):
        verify(peer, tmp_path)


def test_a_refusal_is_shown_in_the_coordinators_words_without_control_characters(
    tmp_path: Path,
) -> None:
    peer = Peer.new()
    text = b'{"status":"error","data":null,"message":"no \\u001b[31mquote\\n"}'
    peer.replies["GET", "/api/v2/quote"] = (500, text)
    with pytest.raises(CallRefusedError) as caught:
        verify(peer, tmp_path)
    assert caught.value.http_status == 500
    assert caught.value.message == "no \\x1b[31mquote\\n"


def test_nobody_at_the_address_is_unreachable_not_untrusted() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError):
            verify_coordinator(
                f"127.0.0.1:{taken.getsockname()[1]}",
                expected=platform().expected_identity,
                root_ca_der=platform().root_ca,
                collateral=platform().collateral,
                timeout=5,
            )


def test_a_silent_peer_is_unreachable_after_the_timeout() -> None:
    simulated = platform()
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(UnreachableError):
        verify_coordinator(
            f"127.0.0.1:{silent.getsockname()[1]}",
            expected=simulated.expected_identity,
            root_ca_der=simulated.root_ca,
            collateral=simulated.collateral,
            timeout=0.2,
        )
