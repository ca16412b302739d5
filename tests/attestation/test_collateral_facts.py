"""Checks of collateral without a quote: signer, platform, validity."""

import contextlib
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.collateral import NOW, RECORDED_AT, Site, platform_of, recorded

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    PckCa,
    PlatformKind,
    QuoteProblem,
    Tee,
    Verifier,
    read_facts,
    require_sound,
)
from keyhouse.attestation.collateral.facts import require_kind
from keyhouse.attestation.errors import CollateralUnusableError
from keyhouse_simulation import Lists, QeIdentity, QuoteParameters, TcbInfo
from keyhouse_simulation.machine import pem, sign

SECOND = timedelta(seconds=1)
SGX, SGX_COLLATERAL = recorded("sgx_quote")
TDX, TDX_COLLATERAL = recorded("tdx_quote")
SITE = Site()


def problem(parameters: QuoteParameters) -> CollateralUnusableError:
    """Return the refusal of collateral with these parameters."""
    with pytest.raises(CollateralUnusableError) as caught:
        require_sound(platform_of(SITE.machine, parameters).collateral, SITE.root_ca, NOW)
    return caught.value


@pytest.mark.parametrize(
    ("quote", "collateral"), [(SGX, SGX_COLLATERAL), (TDX, TDX_COLLATERAL)], ids=["sgx", "tdx"]
)
def test_intels_collateral_is_sound_exactly_as_long_as_the_verifier_says(
    quote: bytes, collateral: Collateral
) -> None:
    facts = require_sound(collateral, INTEL_SGX_ROOT, RECORDED_AT)
    fresh = Verifier(INTEL_SGX_ROOT).verify(quote, collateral, RECORDED_AT).freshness
    assert (facts.issued, facts.expires) == (fresh.issued, fresh.expires)
    assert facts.evaluation_number == fresh.tcb_evaluation_number
    assert (facts.root_crl_number, facts.pck_crl_number) == (
        fresh.root_crl_number,
        fresh.pck_crl_number,
    )
    assert facts.root_ca == INTEL_SGX_ROOT


@pytest.mark.parametrize("name", Collateral.__struct_fields__)
def test_no_changed_byte_is_sound(name: str) -> None:
    value = getattr(SGX_COLLATERAL, name)
    for at in range(0, len(value), max(1, len(value) // 40)):
        if isinstance(value, str):
            bent: object = value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
        else:
            bent = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        changed = msgspec.structs.replace(SGX_COLLATERAL, **{name: bent})
        with pytest.raises(CollateralUnusableError):
            require_sound(changed, INTEL_SGX_ROOT, RECORDED_AT)


@pytest.mark.parametrize(
    "parameters",
    [
        QuoteParameters(tcb_info=TcbInfo(issued_ago=timedelta(days=2))),
        QuoteParameters(qe_identity=QeIdentity(issued_ago=timedelta(days=2))),
        QuoteParameters(lists=Lists(issued_ago=timedelta(days=2))),
        QuoteParameters(lists=Lists(number=0)),
    ],
    ids=["TCB info", "QE identity", "date of lists", "number of lists"],
)
def test_one_older_part_makes_it_older_however_new_the_others_are(
    parameters: QuoteParameters,
) -> None:
    now = read_facts(SITE.collateral)
    older = read_facts(platform_of(SITE.machine, parameters).collateral)
    assert older.older_than(now)
    assert not now.older_than(older)
    assert not now.older_than(now)


def test_the_time_decides_to_the_second() -> None:
    facts = read_facts(SGX_COLLATERAL)
    for at in (facts.issued, facts.expires):
        require_sound(SGX_COLLATERAL, INTEL_SGX_ROOT, at)
    with pytest.raises(CollateralUnusableError, match=r"2025-07-19T10:01:18Z.*QE identity") as late:
        require_sound(SGX_COLLATERAL, INTEL_SGX_ROOT, facts.expires + SECOND)
    with pytest.raises(CollateralUnusableError, match="2025-06-19T10:56:11Z") as early:
        require_sound(SGX_COLLATERAL, INTEL_SGX_ROOT, facts.issued - SECOND)
    assert late.value.reason is QuoteProblem.EXPIRED
    assert early.value.reason is QuoteProblem.NOT_YET_VALID


def test_collateral_of_another_vendor_is_refused() -> None:
    with pytest.raises(CollateralUnusableError, match="pinned root") as caught:
        require_sound(SGX_COLLATERAL, SITE.root_ca, RECORDED_AT)
    assert caught.value.reason is QuoteProblem.CHAIN


def test_a_wrong_signature_is_named() -> None:
    bent = msgspec.structs.replace(SITE.collateral, tcb_info_signature=b"\x01" * 64)
    with pytest.raises(CollateralUnusableError, match="signature") as caught:
        require_sound(bent, SITE.root_ca, NOW)
    assert caught.value.reason is QuoteProblem.SIGNATURE


@pytest.mark.parametrize("name", ["tcb_info", "qe_identity"])
def test_document_that_an_authority_signed_is_refused(name: str) -> None:
    """The PCK CA is also below the root, but it may sign only certificates and lists."""
    machine, text = SITE.machine, getattr(SITE.collateral, name)
    bent = msgspec.structs.replace(
        SITE.collateral,
        **{
            f"{name}_signature": sign(machine.pck_ca_key, text.encode()),
            f"{name}_issuer_chain": pem(machine.pck_ca, machine.root),
        },
    )
    with pytest.raises(CollateralUnusableError) as caught:
        require_sound(bent, SITE.root_ca, NOW)
    assert caught.value.reason is QuoteProblem.CHAIN


@pytest.mark.parametrize(
    "lists", [Lists(revokes_pck_ca=True), Lists(revokes_tcb_signer=True)], ids=["pck ca", "signer"]
)
def test_collateral_of_a_revoked_signer_is_refused(lists: Lists) -> None:
    refused = problem(QuoteParameters(lists=lists))
    assert refused.reason is QuoteProblem.REVOKED
    assert "revoked" in refused.message


@pytest.mark.parametrize(
    ("parameters", "reason", "words"),
    [
        (
            QuoteParameters(tcb_info=TcbInfo(valid_for=timedelta(hours=1))),
            QuoteProblem.EXPIRED,
            "TCB info",
        ),
        (
            QuoteParameters(qe_identity=QeIdentity(valid_for=timedelta(hours=1))),
            QuoteProblem.EXPIRED,
            "QE identity",
        ),
        (
            QuoteParameters(lists=Lists(valid_for=timedelta(hours=1))),
            QuoteProblem.EXPIRED,
            "revocation list",
        ),
        (
            QuoteParameters(tcb_info=TcbInfo(issued_ago=-timedelta(hours=1))),
            QuoteProblem.NOT_YET_VALID,
            "not valid before",
        ),
        (
            QuoteParameters(tcb_info=TcbInfo(evaluation_number=2)),
            QuoteProblem.COLLATERAL,
            "evaluation numbers",
        ),
        (QuoteParameters(qe_identity=QeIdentity(id="TD_QE")), QuoteProblem.COLLATERAL, "same kind"),
    ],
    ids=["old tcb info", "old qe identity", "old lists", "future", "numbers differ", "tdx qe"],
)
def test_each_part_counts_and_is_named(
    parameters: QuoteParameters, reason: QuoteProblem, words: str
) -> None:
    refused = problem(parameters)
    assert refused.reason is reason
    assert words in refused.message


def test_another_fmspc_is_named_with_both() -> None:
    facts = read_facts(SITE.collateral)
    require_kind(facts, SITE.kind)
    with pytest.raises(CollateralUnusableError, match=r"511151115111.*00a067110000") as caught:
        require_kind(facts, PlatformKind(Tee.SGX, "00a067110000", PckCa.PLATFORM))
    assert caught.value.reason is QuoteProblem.WRONG_PLATFORM


def test_older_in_any_number_is_older() -> None:
    now = read_facts(SITE.collateral)
    assert not now.older_than(now)
    later = platform_of(SITE.machine, QuoteParameters(lists=Lists(number=2))).collateral
    assert now.older_than(read_facts(later))
    assert not read_facts(later).older_than(now)


@given(st.sampled_from(Collateral.__struct_fields__), st.binary(max_size=40), st.integers(0, 900))
@settings(max_examples=150)
def test_arbitrary_parts_only_ever_raise_a_refusal(name: str, junk: bytes, at: int) -> None:
    value = getattr(SGX_COLLATERAL, name)
    put: object = junk.decode("latin-1") if isinstance(value, str) else junk
    bent = msgspec.structs.replace(SGX_COLLATERAL, **{name: value[:at] + put + value[at + 1 :]})
    with contextlib.suppress(CollateralUnusableError):
        assert read_facts(bent).expires.tzinfo is not None
