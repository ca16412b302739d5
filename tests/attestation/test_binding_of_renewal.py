"""The evidence of a renewal binds request, nonce and old certificate in all 64 bytes."""

import hashlib

import pytest

from keyhouse.attestation import IdentityRefusedError, quote_binding, report_data
from keyhouse.attestation.quote.binding import renewal_report_data, require_report_data

NONCE = bytes(range(32))
WANTED = renewal_report_data(b"request", NONCE, b"certificate")


def test_each_half_is_the_hash_of_its_parts() -> None:
    old = hashlib.sha256(b"certificate").digest()
    assert WANTED[:32] == hashlib.sha256(b"request").digest()
    assert WANTED[32:] == hashlib.sha256(b"keyhouse renewal v1\0" + NONCE + old).digest()


@pytest.mark.parametrize(
    "found",
    [
        renewal_report_data(b"other", NONCE, b"certificate"),
        renewal_report_data(b"request", bytes(32), b"certificate"),
        renewal_report_data(b"request", NONCE, b"other"),
        report_data(quote_binding(b"request")),
        report_data(quote_binding(b"certificate")),
        WANTED[:32],
        b"",
    ],
    ids=["request", "nonce", "certificate", "first-half", "activation", "half", "empty"],
)
def test_other_evidence_is_refused(found: bytes) -> None:
    with pytest.raises(IdentityRefusedError):
        require_report_data(found, WANTED)


@pytest.mark.parametrize("at", range(64))
def test_every_byte_is_compared(at: int) -> None:
    found = WANTED[:at] + bytes([WANTED[at] ^ 1]) + WANTED[at + 1 :]
    with pytest.raises(IdentityRefusedError):
        require_report_data(found, WANTED)


@pytest.mark.parametrize("nonce", [b"", bytes(31), bytes(33)])
def test_a_nonce_of_another_length_is_refused(nonce: bytes) -> None:
    with pytest.raises(ValueError, match="32"):
        renewal_report_data(b"request", nonce, b"certificate")
