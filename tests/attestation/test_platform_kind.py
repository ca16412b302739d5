"""Only certificates below the pinned root state the kind of a platform."""

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.collateral import NOW, Site, recorded

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    PckCa,
    PlatformKind,
    QuoteProblem,
    QuoteRefusedError,
    Tee,
    add_header,
    platform_kind,
    report_data,
)
from keyhouse.attestation.kinds.table import _fmspc
from keyhouse_simulation import Pck, SimulatedPlatform, make_machine
from keyhouse_simulation.certificates import pck_extension

SGX, _ = recorded("sgx_quote")
TDX, _ = recorded("tdx_quote")


def test_real_quotes_say_their_kind() -> None:
    sgx = PlatformKind(Tee.SGX, "00a067110000", PckCa.PROCESSOR)
    assert platform_kind(SGX, INTEL_SGX_ROOT) == sgx
    assert platform_kind(add_header(SGX), INTEL_SGX_ROOT) == sgx
    assert platform_kind(TDX, INTEL_SGX_ROOT) == PlatformKind(
        Tee.TDX, "b0c06f000000", PckCa.PLATFORM
    )


def test_a_quote_under_another_root_has_no_kind() -> None:
    site = Site()
    for quote, root in ((site.quote, INTEL_SGX_ROOT), (SGX, site.root_ca)):
        with pytest.raises(QuoteRefusedError) as caught:
            platform_kind(quote, root)
        assert caught.value.reason is QuoteProblem.CHAIN


def test_a_chain_that_ends_in_the_root_and_is_not_signed_by_it_has_no_kind() -> None:
    """Anybody can append Intel's public root to own certificates."""
    ours, theirs = make_machine(NOW), make_machine(NOW)
    root = theirs.root
    forged = msgspec.structs.replace(ours, root=root)
    platform = SimulatedPlatform(forged, now=lambda: NOW, collateral=Site().collateral)
    with pytest.raises(QuoteRefusedError) as caught:
        platform_kind(platform.quote(report_data(bytes(32))), platform.root_ca)
    assert caught.value.reason is QuoteProblem.CHAIN


def test_the_fmspc_is_that_of_the_certificate() -> None:
    assert _fmspc(pck_extension(Pck(fmspc=b"\x01\x02\x03\x04\x05\x06"))) == "010203040506"


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 30))
@settings(max_examples=200)
def test_a_bent_extension_gives_an_fmspc_of_six_bytes_or_an_ordinary_error(
    junk: bytes, at: int, skip: int
) -> None:
    whole = pck_extension(Pck())
    for bent in (junk, whole[:at] + junk + whole[at + skip :]):
        try:
            found = _fmspc(bent)
        except (ValueError, IndexError):
            continue
        assert len(bytes.fromhex(found)) == 6
