"""A quote binds a certificate and a nonce in 32 of its 64 bytes of report data."""

import hashlib

import pytest

from keyhouse.attestation import IdentityRefusedError, quote_binding, report_data
from keyhouse.attestation.quote.binding import require_binding


def test_the_digest_covers_the_certificate_then_the_nonce() -> None:
    assert quote_binding(b"root") == hashlib.sha256(b"root").digest()
    assert quote_binding(b"root", b"nonce") == hashlib.sha256(b"rootnonce").digest()


def test_report_data_are_the_digest_and_zeros() -> None:
    digest = quote_binding(b"root")
    assert report_data(digest) == digest + bytes(32)
    with pytest.raises(ValueError, match="32"):
        report_data(digest[:31])


def test_only_the_first_half_is_compared() -> None:
    digest = quote_binding(b"root")
    require_binding(report_data(digest), digest)
    require_binding(digest + b"\xff" * 32, digest)


@pytest.mark.parametrize("at", [0, 15, 31])
def test_a_changed_byte_of_the_first_half_is_refused(at: int) -> None:
    digest = quote_binding(b"root")
    other = digest[:at] + bytes([digest[at] ^ 1]) + digest[at + 1 :]
    with pytest.raises(IdentityRefusedError):
        require_binding(report_data(other), digest)


@pytest.mark.parametrize(
    ("found", "binding"),
    [(b"", b""), (bytes(32), bytes(32)), (bytes(64), b""), (bytes(64), bytes(64))],
)
def test_values_of_another_length_never_match(found: bytes, binding: bytes) -> None:
    with pytest.raises(IdentityRefusedError):
        require_binding(found, binding)
