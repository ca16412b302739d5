"""A bundle is accepted whole, or refused with the name of the field but not its value."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.attestation import CollateralRefusedError, read_collateral
from keyhouse.attestation.collateral.bundle import MAX_COLLATERAL

BUNDLE = json.loads((Path(__file__).parent / "vectors/sgx_quote_collateral.json").read_text())


@pytest.mark.parametrize("name", sorted(BUNDLE))
def test_a_missing_or_mistyped_field_is_refused(name: str) -> None:
    for bad in ({k: v for k, v in BUNDLE.items() if k != name}, {**BUNDLE, name: 7}):
        with pytest.raises(CollateralRefusedError):
            read_collateral(json.dumps(bad).encode())


@pytest.mark.parametrize(
    "name", ["root_ca_crl", "pck_crl", "tcb_info_signature", "qe_identity_signature"]
)
@pytest.mark.parametrize("bad", ["CANARY", "0", "00 00", "0x00", "é"])
def test_a_field_that_is_no_hex_is_named_and_not_shown(name: str, bad: str) -> None:
    with pytest.raises(CollateralRefusedError, match=name) as caught:
        read_collateral(json.dumps({**BUNDLE, name: bad}).encode())
    assert "CANARY" not in str(caught.value)


def test_a_signature_has_64_bytes() -> None:
    with pytest.raises(CollateralRefusedError, match=r"tcb_info_signature .*63 .*64"):
        read_collateral(json.dumps({**BUNDLE, "tcb_info_signature": "00" * 63}).encode())


def test_unknown_fields_of_other_tools_are_ignored() -> None:
    more = {**BUNDLE, "pck_certificate_chain": "-----BEGIN CERTIFICATE-----"}
    assert read_collateral(json.dumps(more).encode()) == read_collateral(
        json.dumps(BUNDLE).encode()
    )


def test_a_bundle_that_is_too_long_is_not_read() -> None:
    with pytest.raises(CollateralRefusedError, match=str(MAX_COLLATERAL)):
        read_collateral(b" " * (MAX_COLLATERAL + 1))


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CollateralRefusedError):
        read_collateral(data)


def test_endless_nesting_is_refused() -> None:
    with pytest.raises(CollateralRefusedError):
        read_collateral(b'{"x":' + b"[" * 200_000)
