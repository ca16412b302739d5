"""Both forms of a quote have one exact length."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.attestation import QuoteProblem, QuoteRefusedError, Tee, add_header, read_form
from keyhouse.attestation.quote.report import MAX_QUOTE

VECTORS = Path(__file__).parent / "vectors"
SGX = (VECTORS / "sgx_quote").read_bytes()
TDX = (VECTORS / "tdx_quote").read_bytes()


def refused(quote: bytes) -> str:
    with pytest.raises(QuoteRefusedError) as caught:
        read_form(quote)
    assert caught.value.reason is QuoteProblem.MALFORMED
    return caught.value.message


def test_both_forms_of_an_sgx_quote_are_read() -> None:
    headered = struct.pack("<IIQ", 1, 2, len(SGX)) + SGX
    assert add_header(SGX) == headered
    assert read_form(SGX) == read_form(headered)
    assert read_form(SGX).tee is Tee.SGX
    assert read_form(SGX).chain.startswith(b"-----BEGIN CERTIFICATE-----")


def test_tdx_quotes_come_raw_only() -> None:
    assert read_form(TDX).tee is Tee.TDX
    with pytest.raises(QuoteRefusedError, match="transport header"):
        add_header(TDX)
    assert "only SGX" in refused(struct.pack("<IIQ", 1, 2, len(TDX)) + TDX)


@pytest.mark.parametrize("quote", [SGX, TDX, add_header(SGX)], ids=["sgx", "tdx", "headered"])
def test_trailing_bytes_are_refused(quote: bytes) -> None:
    for more in (b"\0", b"\0" * 12, b"SWHardeningNeeded", quote):
        refused(quote + more)


@pytest.mark.parametrize("quote", [SGX, TDX, add_header(SGX)], ids=["sgx", "tdx", "headered"])
def test_every_shorter_quote_is_refused(quote: bytes) -> None:
    for length in [*range(70), *range(70, len(quote), 41), len(quote) - 1]:
        refused(quote[:length])


@pytest.mark.parametrize(
    ("quote", "at", "grows"),
    [
        (SGX, 432, ()),  # signature data: bytes after the chain, inside all outer lengths
        (TDX, 632, ()),
        (TDX, 632, (632 + 4 + 128 + 2,)),  # and inside the certification data of TDX
    ],
)
def test_bytes_hidden_inside_an_outer_length_are_refused(
    quote: bytes, at: int, grows: tuple[int, ...]
) -> None:
    bent = bytearray(quote + b"\0" * 12)
    for place in (at, *grows):
        (length,) = struct.unpack_from("<I", bent, place)
        struct.pack_into("<I", bent, place, length + 12)
    assert "12 bytes follow" in refused(bytes(bent))


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 4), (0, 5), (0, 2), (2, 3), (4, 1), (4, 0x81), (8, 0), (10, 0)],
    ids=["v4", "v5", "v2", "P-384", "TEE 1", "TDX in v3", "QE SVN 0", "PCE SVN 0"],
)
def test_other_kinds_of_quotes_are_refused(at: int, value: int) -> None:
    refused(SGX[:at] + struct.pack("<H", value) + SGX[at + 2 :])


@pytest.mark.parametrize(
    ("version", "kind", "length"), [(2, 3, 0), (1, 2, -1), (1, 2, 1), (1, 2, 2**63)]
)
def test_a_header_in_front_that_does_not_fit_is_refused(
    version: int, kind: int, length: int
) -> None:
    refused(struct.pack("<IIQ", version, kind, len(SGX) + length) + SGX)


def test_version_5_carries_its_body_size() -> None:
    body = struct.pack("<HI", 2, 584) + TDX[48 : 48 + 584]
    version_5 = struct.pack("<H", 5) + TDX[2:48] + body + TDX[48 + 584 :]
    assert read_form(version_5).tee is Tee.TDX
    refused(version_5[:48] + struct.pack("<HI", 2, 648) + version_5[54:])
    refused(version_5[:48] + struct.pack("<HI", 1, 384) + version_5[54:])


def test_nothing_and_too_much_are_refused() -> None:
    assert "empty" in refused(b"")
    assert "more than" in refused(SGX + bytes(MAX_QUOTE))


@given(st.binary(max_size=700))
@settings(max_examples=300)
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    refused(data)
    refused(SGX[:48] + data)
