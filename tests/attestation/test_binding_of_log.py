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
from keyhouse.attestation.quote.binding import require_report_data

ROOT = b"the root certificate"
INSTANCE = bytes(range(16))
TREE = bytes(32)


def test_the_bytes_of_report_data_are_these_forever() -> None:
    start = hashlib.sha256(b"keyhouse start v1\0" + INSTANCE + b"\0\0\0\0\0\0\1\2" + TREE).digest()
    assert start_report_data(ROOT, INSTANCE, 258, TREE) == hashlib.sha256(ROOT).digest() + start
    head = hashlib.sha256(b"keyhouse head v1\0" + b"o\n1\n").digest()
    first = hashlib.sha256(ROOT + b"nonce").digest()
    assert head_report_data(ROOT, b"nonce", b"o\n1\n") == first + head


def test_each_part_of_a_start_and_of_a_head_is_bound() -> None:
    start = start_report_data(ROOT, INSTANCE, 1, TREE)
    head = head_report_data(ROOT, b"nonce", b"text")
    require_report_data(start, start)
    require_report_data(head, head)
    others = (
        start_report_data(b"another", INSTANCE, 1, TREE),
        start_report_data(ROOT, INSTANCE[::-1], 1, TREE),
        start_report_data(ROOT, INSTANCE, 2, TREE),
        start_report_data(ROOT, INSTANCE, 1, TREE[:-1] + b"\1"),
        head_report_data(b"another", b"nonce", b"text"),
        head_report_data(ROOT, b"nonc", b"text"),
        head_report_data(ROOT, b"nonce", b"text\n"),
        start[:32] + bytes(32),
        head[:32] + bytes(32),
        b"",
    )
    for found in others:
        for wanted in (start, head):
            with pytest.raises(IdentityRefusedError):
                require_report_data(found, wanted)


def test_a_start_has_an_instance_of_its_own_length() -> None:
    with pytest.raises(ValueError, match=r"\b16\b"):
        start_report_data(ROOT, INSTANCE + b"\0", 1, TREE)


@given(nonce=st.binary(max_size=64), text=st.binary(max_size=64))
def test_no_nonce_and_no_head_gives_the_report_data_of_a_start(nonce: bytes, text: bytes) -> None:
    start = start_report_data(ROOT, INSTANCE, 1, TREE)
    for asked in (
        report_data(quote_binding(ROOT, nonce)),
        head_report_data(ROOT, nonce, text),
        head_report_data(ROOT, nonce, start),
    ):
        with pytest.raises(IdentityRefusedError):
            require_report_data(asked, start)
