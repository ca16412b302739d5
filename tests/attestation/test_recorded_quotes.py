"""Quotes of real machines verify under Intel's root; a quote with a changed bit never does."""

import hashlib
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.confidential_vms import td_of

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    ConfigurationRefusedError,
    QuoteProblem,
    QuoteRefusedError,
    TcbStatus,
    Tee,
    Verifier,
    add_header,
    read_collateral,
    read_form,
    write_collateral,
)
from keyhouse.attestation.vendor_roots import INTEL_SGX_ROOT_SHA256

VECTORS = Path(__file__).parent / "vectors"
AT = datetime.fromtimestamp(1751328000, UTC)
END = "-----END CERTIFICATE-----\n"
VERIFIER = Verifier(INTEL_SGX_ROOT)


def recorded(name: str) -> tuple[bytes, Collateral]:
    bundle = (VECTORS / f"{name}_collateral.json").read_bytes()
    return (VECTORS / name).read_bytes(), read_collateral(bundle)


SGX, SGX_COLLATERAL = recorded("sgx_quote")
TDX, TDX_COLLATERAL = recorded("tdx_quote")


def reason(quote: bytes, collateral: Collateral, at: datetime = AT) -> QuoteProblem | None:
    """Return the reason of the refusal, or None. Any further error is a bug."""
    try:
        VERIFIER.verify(quote, collateral, at)
    except QuoteRefusedError as refusal:
        return refusal.reason
    return None


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def test_intels_root_is_the_one_that_intel_publishes() -> None:
    assert hashlib.sha256(INTEL_SGX_ROOT).hexdigest() == INTEL_SGX_ROOT_SHA256
    assert INTEL_SGX_ROOT_SHA256.startswith("44a0196b2b99f889b8e149e95b807a35")


def test_the_recorded_sgx_quote_verifies_with_its_status_and_advisories() -> None:
    verdict = VERIFIER.verify(SGX, SGX_COLLATERAL, AT)
    assert verdict.tee is Tee.SGX
    assert verdict.tcb_status is TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED
    assert verdict.advisories == ("INTEL-SA-00289", "INTEL-SA-00615")
    assert verdict.mrenclave.hex().startswith("33d8736db756ed49")
    assert verdict.mrsigner.hex().startswith("815f42f11cf64430")
    assert (verdict.isvprodid, verdict.isvsvn, verdict.debug) == (0, 0, False)
    assert verdict.report_data == b"Hello, world!".ljust(64, b"\0")
    assert verdict.fmspc.hex() == "00a067110000"
    assert verdict.ppid.hex() == "d04ec06d4e6d92dc90d0ad3cf5ee2ddf"
    assert verdict.tcb_date == datetime(2024, 3, 13, tzinfo=UTC)
    assert verdict.freshness.tcb_evaluation_number == 17
    assert verdict.freshness.issued <= AT <= verdict.freshness.expires


def test_the_recorded_tdx_quote_verifies_and_has_no_sgx_identity() -> None:
    verdict = VERIFIER.verify(TDX, TDX_COLLATERAL, AT)
    assert verdict.tee is Tee.TDX
    assert verdict.tcb_status is TcbStatus.UP_TO_DATE
    assert verdict.mrenclave == verdict.mrsigner == b""
    assert td_of(verdict).mrtd.hex().startswith("91eb2b44d141d4ec")
    assert td_of(verdict).rtmrs[0].hex().startswith("44c0197b39157fdd")
    assert td_of(verdict).rtmrs[3] == bytes(48)
    assert verdict.report_data.hex().startswith("9a9d48e7f6799642")


def test_the_outdated_tdx_quote_is_refused_for_its_level() -> None:
    quote, collateral = recorded("tdx_quote_outdated")
    at = datetime.fromtimestamp(1771498731, UTC)
    assert reason(quote, collateral, at) is QuoteProblem.TCB_LEVEL


def test_an_sgx_quote_with_the_header_in_front_is_the_same_quote() -> None:
    headered = add_header(SGX)
    assert len(headered) == len(SGX) + 16
    assert VERIFIER.verify(headered, SGX_COLLATERAL, AT) == VERIFIER.verify(SGX, SGX_COLLATERAL, AT)
    assert read_form(headered).raw == SGX


@pytest.mark.parametrize(
    ("quote", "collateral"), [(SGX, SGX_COLLATERAL), (TDX, TDX_COLLATERAL)], ids=["sgx", "tdx"]
)
def test_no_changed_bit_of_a_quote_verifies(quote: bytes, collateral: Collateral) -> None:
    accepted = [
        at for at in range(0, len(quote), 3) if not reason(flipped(quote, at, at % 8), collateral)
    ]
    assert accepted == []


@pytest.mark.parametrize(
    ("quote", "collateral"), [(SGX, SGX_COLLATERAL), (TDX, TDX_COLLATERAL)], ids=["sgx", "tdx"]
)
def test_nothing_that_is_cut_off_verifies(quote: bytes, collateral: Collateral) -> None:
    assert [left for left in range(len(quote)) if not reason(quote[:left], collateral)] == []
    for name in Collateral.__struct_fields__:
        value = getattr(collateral, name)
        for left in (0, 1, len(value) // 2, len(value) - 2):
            bent = msgspec.structs.replace(collateral, **{name: value[:left]})
            assert reason(quote, bent) is not None, (name, left)


@pytest.mark.parametrize("name", Collateral.__struct_fields__)
def test_no_changed_bit_of_the_collateral_verifies(name: str) -> None:
    value = getattr(SGX_COLLATERAL, name)
    data = value.encode() if isinstance(value, str) else value
    accepted = []
    for at in range(0, len(data), max(1, len(data) // 150)):
        changed: object = flipped(data, at, at % 7)
        if isinstance(value, str):
            changed = flipped(data, at, at % 7).decode("latin-1")
        bent = msgspec.structs.replace(SGX_COLLATERAL, **{name: changed})
        if not reason(SGX, bent):
            accepted.append(at)
    assert accepted == []


@pytest.mark.parametrize("name", Collateral.__struct_fields__)
def test_collateral_of_another_platform_in_any_field_is_refused(name: str) -> None:
    foreign = getattr(TDX_COLLATERAL, name)
    bent = msgspec.structs.replace(SGX_COLLATERAL, **{name: foreign})
    # Both come from Intel's only root, so some fields are equal.
    unchanged = foreign == getattr(SGX_COLLATERAL, name)
    assert (reason(SGX, bent) is None) is unchanged


def test_the_time_decides() -> None:
    verdict = VERIFIER.verify(SGX, SGX_COLLATERAL, AT)
    issued, expires = verdict.freshness.issued, verdict.freshness.expires
    second = timedelta(seconds=1)
    assert reason(SGX, SGX_COLLATERAL, issued) is None
    assert reason(SGX, SGX_COLLATERAL, issued - second) is QuoteProblem.NOT_YET_VALID
    assert reason(SGX, SGX_COLLATERAL, expires) is None
    assert reason(SGX, SGX_COLLATERAL, expires + second) is QuoteProblem.EXPIRED
    assert reason(TDX, TDX_COLLATERAL, AT + timedelta(days=400)) is QuoteProblem.EXPIRED


def test_a_time_without_a_zone_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="zone"):
        VERIFIER.verify(SGX, SGX_COLLATERAL, AT.replace(tzinfo=None))


@given(st.binary(max_size=200), st.integers(0, len(SGX)), st.integers(0, 400))
@settings(max_examples=150)
def test_arbitrary_bytes_in_a_quote_only_ever_raise_a_refusal(
    junk: bytes, at: int, skip: int
) -> None:
    for bent in (junk, SGX[:at] + junk + SGX[at + skip :], TDX[:at] + junk + TDX[at + skip :]):
        if bent not in {SGX, TDX}:
            assert reason(bent, SGX_COLLATERAL) is not None


@given(
    st.sampled_from(Collateral.__struct_fields__),
    st.text(max_size=80),
    st.integers(0, 4000),
    st.integers(0, 300),
)
@settings(max_examples=150)
def test_arbitrary_text_in_collateral_only_ever_raises_a_refusal(
    name: str, junk: str, at: int, skip: int
) -> None:
    value = getattr(SGX_COLLATERAL, name)
    added = junk if isinstance(value, str) else junk.encode()
    changed = value[:at] + added + value[at + skip :]
    reason(SGX, msgspec.structs.replace(SGX_COLLATERAL, **{name: changed}))


def test_the_librarys_own_words_do_not_go_out() -> None:
    canary = json.dumps({**json.loads(SGX_COLLATERAL.tcb_info), "fmspc": "CANARY"})
    bent = msgspec.structs.replace(SGX_COLLATERAL, tcb_info=canary)
    with pytest.raises(QuoteRefusedError) as caught:
        VERIFIER.verify(SGX, bent, AT)
    assert "CANARY" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_only_a_self_signed_root_can_be_pinned() -> None:
    """The library aborts the process if the issuer of a pinned root is not its subject."""
    chain = [
        ssl.PEM_cert_to_DER_cert(pem + END)
        for pem in SGX_COLLATERAL.tcb_info_issuer_chain.split(END)[:-1]
    ]
    renamed = INTEL_SGX_ROOT.replace(b"Intel SGX Root CA", b"Other SGX Root CA", 1)
    assert chain[1] == INTEL_SGX_ROOT
    for root in (b"", b"junk", chain[0], renamed, flipped(INTEL_SGX_ROOT, -1)):
        with pytest.raises(ConfigurationRefusedError):
            Verifier(root)


def test_a_bundle_survives_writing_and_reading() -> None:
    for collateral in (SGX_COLLATERAL, TDX_COLLATERAL):
        assert read_collateral(write_collateral(collateral)) == collateral
