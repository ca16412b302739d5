import hashlib

import pytest
from hypothesis import given, strategies as st

from keyhouse.attestation import (
    IdentityRefusedError,
    head_report_data,
    quote_binding,
    report_data,
    start_report_data,
)
from keyhouse.attestation.quote.binding import (
    entry_report_data,
    line_report_data,
    replica_report_data,
    require_report_data,
)

ROOT = b"the root certificate"
ENTRY = bytes(range(32))


def test_the_bytes_of_report_data_are_these_forever() -> None:
    entry = hashlib.sha256(b"keyhouse line v1\0" + ENTRY).digest()
    assert entry_report_data(ROOT, ENTRY) == hashlib.sha256(ROOT).digest() + entry
    answer = hashlib.sha256(b"keyhouse line answer v1\0" + ENTRY + b"o\n1\n").digest()
    first = hashlib.sha256(ROOT + b"nonce").digest()
    assert line_report_data(ROOT, b"nonce", ENTRY, b"o\n1\n") == first + answer


@given(nonce=st.binary(max_size=64), text=st.binary(max_size=64))
def test_no_quote_that_callers_can_have_made_serves_for_an_entry(nonce: bytes, text: bytes) -> None:
    wanted = entry_report_data(ROOT, ENTRY)
    require_report_data(wanted, entry_report_data(ROOT, ENTRY))
    for other in (
        report_data(quote_binding(ROOT, nonce)),
        head_report_data(ROOT, nonce, text),
        line_report_data(ROOT, nonce, ENTRY, text),
        start_report_data(ROOT, ENTRY[:16], 1, ENTRY),
        replica_report_data("give", text),
        entry_report_data(ROOT, ENTRY[::-1]),
        entry_report_data(ROOT + b"\0", ENTRY),
    ):
        with pytest.raises(IdentityRefusedError):
            require_report_data(other, wanted)


def test_the_hash_of_an_entry_has_32_bytes() -> None:
    with pytest.raises(ValueError, match=r"\b32\b"):
        entry_report_data(ROOT, ENTRY[1:])
    with pytest.raises(ValueError, match=r"\b32\b"):
        line_report_data(ROOT, b"", ENTRY + b"\0", b"")
