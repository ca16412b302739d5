"""Simulated quotes of confidential VMs verify; bent in any one place they do not."""

import struct
from datetime import UTC, datetime

import dcap_qvl  # type: ignore[import-untyped]  # its stubs lack py.typed
import msgspec
import pytest
from support.samples.confidential_vms import td_of

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    QuoteProblem,
    QuoteRefusedError,
    TcbStatus,
    Tee,
    Verdict,
    Verifier,
    platform_kind,
    read_facts,
    require_sound,
)
from keyhouse_simulation import (
    Lists,
    QeIdentity,
    QuotedTd,
    QuoteParameters,
    QuotingEnclave,
    SimulatedPlatform,
    TcbInfo,
    TdxLevel,
    TdxQuoteForm,
    make_machine,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MACHINE = make_machine(NOW)
DATA = bytes(range(64))
V4, V5, V5_15 = TdxQuoteForm.V4, TdxQuoteForm.V5_REPORT_10, TdxQuoteForm.V5_REPORT_15
WHO = QuotedTd(
    mrseam=b"s" * 48,
    mrtd=b"t" * 48,
    mrconfigid=b"c" * 48,
    mrowner=b"o" * 48,
    mrownerconfig=b"w" * 48,
    rtmrs=(b"0" * 48, b"1" * 48, b"2" * 48, b"3" * 48),
)


def platform(parameters: QuoteParameters | None = None) -> SimulatedPlatform:
    return SimulatedPlatform(MACHINE, parameters, now=lambda: NOW)


GOOD = platform()
VERIFIER = Verifier(GOOD.root_ca)


def quote_of(form: TdxQuoteForm) -> bytes:
    return GOOD.td_quote(msgspec.structs.replace(WHO, form=form), DATA)


def reason(
    quote: bytes, collateral: Collateral = GOOD.td_collateral, verifier: Verifier = VERIFIER
) -> QuoteProblem | None:
    try:
        verifier.verify(quote, collateral, NOW)
    except QuoteRefusedError as refusal:
        return refusal.reason
    return None


def verdict(bent: SimulatedPlatform) -> Verdict:
    return VERIFIER.verify(bent.td_quote(None, DATA), bent.td_collateral, NOW)


@pytest.mark.parametrize("form", TdxQuoteForm)
def test_quotes_of_vms_verify_in_each_form(form: TdxQuoteForm) -> None:
    found = VERIFIER.verify(quote_of(form), GOOD.td_collateral, NOW)
    assert (found.tee, found.tcb_status, found.debug) == (Tee.TDX, TcbStatus.UP_TO_DATE, False)
    assert found.report_data == DATA
    assert (td_of(found).mrtd, td_of(found).rtmrs) == (WHO.mrtd, WHO.rtmrs)


@pytest.mark.parametrize("form", TdxQuoteForm)
def test_every_register_is_where_others_read_it(form: TdxQuoteForm) -> None:
    """The quote library reads quotes of hardware with the same code."""
    report = dcap_qvl.parse_quote(quote_of(form)).report
    assert (report.mr_td, report.mr_seam) == (WHO.mrtd, WHO.mrseam)
    assert (report.mr_config_id, report.mr_owner) == (WHO.mrconfigid, WHO.mrowner)
    assert report.mr_owner_config == WHO.mrownerconfig
    assert (report.rt_mr0, report.rt_mr1, report.rt_mr2, report.rt_mr3) == WHO.rtmrs
    assert (report.td_attributes, report.xfam) == (WHO.td_attributes, WHO.xfam)
    assert (report.tee_tcb_svn, report.mr_signer_seam) == (WHO.tee_tcb_svn, bytes(48))
    assert report.report_data == DATA
    if form is V5_15:
        assert (report.tee_tcb_svn2, report.mr_service_td) == (WHO.tee_tcb_svn2, bytes(48))


def test_one_machine_quotes_enclaves_and_vms_each_with_its_own_collateral() -> None:
    sgx, tdx = GOOD.quote(DATA), quote_of(V4)
    kinds = [platform_kind(quote, GOOD.root_ca) for quote in (sgx, tdx)]
    bundles = (GOOD.collateral, GOOD.td_collateral)
    assert kinds == [read_facts(bundle).kind for bundle in bundles]
    assert [str(kind) for kind in kinds] == [
        "sgx-511151115111-platform",
        "tdx-511151115111-platform",
    ]
    assert reason(sgx, GOOD.td_collateral) is QuoteProblem.WRONG_PLATFORM
    assert reason(tdx, GOOD.collateral) is QuoteProblem.WRONG_PLATFORM
    require_sound(GOOD.td_collateral, GOOD.root_ca, NOW)
    # One machine has one set of lists: newer ones of the one are the newest for the other.
    assert GOOD.collateral.root_ca_crl == GOOD.td_collateral.root_ca_crl
    assert GOOD.collateral.pck_crl == GOOD.td_collateral.pck_crl


def test_intels_root_refuses_it() -> None:
    assert reason(quote_of(V4), verifier=Verifier(INTEL_SGX_ROOT)) is QuoteProblem.CHAIN


@pytest.mark.parametrize("length", [0, 32, 63, 65])
def test_report_data_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match="64"):
        GOOD.td_quote(None, bytes(length))


@pytest.mark.parametrize("status", [each for each in TcbStatus if each is not TcbStatus.REVOKED])
def test_statuses_and_advisories_come_out_as_they_were_put_in(status: TcbStatus) -> None:
    info = TcbInfo(id="TDX", tdx=TdxLevel(), status=status, advisories=("INTEL-SA-00334",))
    found = verdict(platform(QuoteParameters(td_tcb_info=info)))
    assert (found.tcb_status, found.advisories) == (status, ("INTEL-SA-00334",))


def test_an_old_module_makes_a_platform_out_of_date_that_is_not() -> None:
    assert verdict(level(module_status=TcbStatus.OUT_OF_DATE)).tcb_status is TcbStatus.OUT_OF_DATE


def level(**changed: object) -> SimulatedPlatform:
    known = msgspec.structs.replace(TdxLevel(), **changed)
    return platform(QuoteParameters(td_tcb_info=TcbInfo(id="TDX", tdx=known)))


def vm(**changed: object) -> SimulatedPlatform:
    return platform(QuoteParameters(td=msgspec.structs.replace(QuotedTd(), **changed)))


def attributes(bit: int) -> SimulatedPlatform:
    """Return a vm whose TDATTRIBUTES differ in ``bit``."""
    given = int.from_bytes(QuotedTd().td_attributes, "little")
    return vm(td_attributes=(given ^ 1 << bit).to_bytes(8, "little"))


# What the vendor or machine could say under valid signatures, and why it is refused.
TRUE_SIGNATURES: dict[str, tuple[SimulatedPlatform, QuoteProblem]] = {
    "debug": (attributes(0), QuoteProblem.DEBUG),
    "reserved under debug": (attributes(1), QuoteProblem.TD_ATTRIBUTES),
    "profiling": (attributes(4), QuoteProblem.TD_ATTRIBUTES),
    "reserved": (attributes(8), QuoteProblem.TD_ATTRIBUTES),
    "no SEPT_VE_DISABLE": (attributes(28), QuoteProblem.TD_ATTRIBUTES),
    "reserved above": (attributes(40), QuoteProblem.TD_ATTRIBUTES),
    "service TDs of others": (attributes(17), QuoteProblem.SERVICE_TD),
    "migration": (attributes(29), QuoteProblem.SERVICE_TD),
    "service TD": (
        vm(form=V5_15, mrservicetd=bytes(47) + b"\1"),
        QuoteProblem.SERVICE_TD,
    ),
    "module's signer": (vm(mrsignerseam=bytes(47) + b"\1"), QuoteProblem.TDX_MODULE),
    "module's attributes": (vm(seam_attributes=b"\1" + bytes(7)), QuoteProblem.TDX_MODULE),
    "signer of known modules": (level(module_signer=b"\1" * 48), QuoteProblem.TDX_MODULE),
    "attributes of known modules": (level(module_attributes=b"\1" * 8), QuoteProblem.TDX_MODULE),
    "module too old": (level(module_version=6), QuoteProblem.TCB_LEVEL),
    "module of another line": (level(module_line=2), QuoteProblem.TCB_LEVEL),
    "module revoked": (level(module_status=TcbStatus.REVOKED), QuoteProblem.REVOKED),
    "TEE_TCB_SVN too low": (level(tee_tcb_svn=bytes([6] * 16)), QuoteProblem.TCB_LEVEL),
    "own TEE_TCB_SVN too low": (vm(tee_tcb_svn=bytes(16)), QuoteProblem.TCB_LEVEL),
    "TEE_TCB_SVN2 too low": (
        vm(form=V5_15, tee_tcb_svn2=bytes(16)),
        QuoteProblem.TCB_LEVEL,
    ),
    "no level for TDX": (
        platform(QuoteParameters(td_tcb_info=TcbInfo(id="TDX"))),
        QuoteProblem.COLLATERAL,
    ),
    "TCB info for SGX": (
        platform(QuoteParameters(td_tcb_info=TcbInfo(tdx=TdxLevel()))),
        QuoteProblem.WRONG_PLATFORM,
    ),
    "identity of the QE for SGX": (
        platform(QuoteParameters(td_qe_identity=QeIdentity(product_id=2))),
        QuoteProblem.COLLATERAL,
    ),
    "QE for SGX": (
        platform(QuoteParameters(td_quoting_enclave=QuotingEnclave())),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE of another signer": (
        platform(
            QuoteParameters(td_quoting_enclave=QuotingEnclave(product_id=2, signer=bytes(32)))
        ),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE vendor": (
        platform(
            QuoteParameters(td_quoting_enclave=QuotingEnclave(product_id=2, vendor=bytes(16)))
        ),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "TCB info of another evaluation": (
        platform(
            QuoteParameters(td_tcb_info=TcbInfo(id="TDX", tdx=TdxLevel(), evaluation_number=2)),
        ),
        QuoteProblem.COLLATERAL,
    ),
    "PCK revoked": (platform(QuoteParameters(lists=Lists(revokes_pck=True))), QuoteProblem.REVOKED),
}


@pytest.mark.parametrize("case", TRUE_SIGNATURES)
def test_what_is_wrong_under_true_signatures_is_refused_for_its_reason(case: str) -> None:
    bent, why = TRUE_SIGNATURES[case]
    assert reason(bent.td_quote(None, DATA), bent.td_collateral) is why


REPORT = {
    "TEE_TCB_SVN": 16,
    "MRSEAM": 48,
    "MRSIGNERSEAM": 48,
    "SEAMATTRIBUTES": 8,
    "TDATTRIBUTES": 8,
    "XFAM": 8,
    "MRTD": 48,
    "MRCONFIGID": 48,
    "MROWNER": 48,
    "MROWNERCONFIG": 48,
    "RTMR0": 48,
    "RTMR1": 48,
    "RTMR2": 48,
    "RTMR3": 48,
    "report data": 64,
}
HEADER = {"version": 2, "key type": 2, "TEE type": 4, "reserved": 4, "vendor": 16, "user data": 20}
QE_REPORT = {
    "CPUSVN": 16,
    "MISCSELECT": 4,
    "reserved 1": 28,
    "attributes": 16,
    "MRENCLAVE": 32,
    "reserved 2": 32,
    "MRSIGNER": 32,
    "reserved 3": 96,
    "ISVPRODID": 2,
    "ISVSVN": 2,
    "reserved 4": 60,
    "report data": 64,
}
BEFORE_CHAIN = {
    "signature length": 4,
    "signature": 64,
    "attestation key": 64,
    "outer type": 2,
    "outer length": 4,
    **{f"QE {name}": size for name, size in QE_REPORT.items()},
    "QE signature": 64,
    "authentication length": 2,
    "authentication data": 32,
    "inner type": 2,
    "chain length": 4,
}
FRAMING = {"body type": 2, "body size": 4}
LATER = {"TEE_TCB_SVN2": 16, "MRSERVICETD": 48}
FIELDS = {
    V4: {**HEADER, **REPORT, **BEFORE_CHAIN},
    V5: {**HEADER, **FRAMING, **REPORT, **BEFORE_CHAIN},
    V5_15: {**HEADER, **FRAMING, **REPORT, **LATER, **BEFORE_CHAIN},
}
EVERY_FIELD = [(form, name) for form, fields in FIELDS.items() for name in [*fields, "chain"]]


def span(form: TdxQuoteForm, field: str) -> tuple[int, int]:
    """Return where ``field`` begins and ends."""
    at = 0
    for name, size in FIELDS[form].items():
        if name == field:
            return at, at + size
        at += size
    assert field == "chain"
    return at, len(QUOTES[form])


QUOTES = {form: quote_of(form) for form in TdxQuoteForm}


@pytest.mark.parametrize("form", TdxQuoteForm)
def test_the_table_of_fields_leaves_the_chain_alone(form: TdxQuoteForm) -> None:
    at, end = span(form, "chain")
    assert QUOTES[form][at:end].startswith(b"-----BEGIN CERTIFICATE-----\n")
    assert struct.unpack("<I", QUOTES[form][at - 4 : at]) == (end - at,)


@pytest.mark.parametrize(("form", "name"), EVERY_FIELD)
def test_each_changed_field_of_a_quote_is_refused(form: TdxQuoteForm, name: str) -> None:
    at, end = span(form, name)
    for place in {at, (at + end) // 2, end - 1}:
        for bit in (0, 6):
            bent = bytearray(QUOTES[form])
            bent[place] ^= 1 << bit
            assert reason(bytes(bent)) is not None


# Other quotes that verify: of another vm, by another quoting enclave, of another machine.
_QE = QuotingEnclave(product_id=2, unique_id=b"\x03" * 32, authentication_data=bytes(32))
_ELSE = QuotedTd(tee_tcb_svn=bytes([6, 1, 3]).ljust(16, b"\0"), xfam=bytes(8))
_ELSEWHERE = SimulatedPlatform(make_machine(NOW), now=lambda: NOW)


def others(form: TdxQuoteForm) -> tuple[bytes, ...]:
    other = msgspec.structs.replace(_ELSE, form=form)
    return (
        GOOD.td_quote(other, b"\x04" * 64),
        platform(QuoteParameters(td_quoting_enclave=_QE)).td_quote(other, b"\x05" * 64),
        _ELSEWHERE.td_quote(other, b"\x06" * 64),
    )


OTHERS = {form: others(form) for form in TdxQuoteForm}


@pytest.mark.parametrize(("form", "name"), EVERY_FIELD)
def test_each_field_swapped_with_that_of_another_quote_is_refused(
    form: TdxQuoteForm, name: str
) -> None:
    quote, (at, end) = QUOTES[form], span(form, name)
    for other in OTHERS[form]:
        theirs = other[at:] if name == "chain" else other[at:end]
        if theirs != quote[at:end]:
            assert reason(quote[:at] + theirs + quote[end:]) is not None


@pytest.mark.parametrize(("form", "name"), EVERY_FIELD)
def test_a_quote_that_lacks_a_field_or_ends_in_it_is_refused(form: TdxQuoteForm, name: str) -> None:
    quote, (at, end) = QUOTES[form], span(form, name)
    for bent in (quote[:at], quote[: (at + end) // 2], quote[:at] + quote[end:]):
        assert reason(bent) is not None


def test_a_report_of_one_version_is_not_treated_as_the_other() -> None:
    longer, shorter = QUOTES[V5_15], QUOTES[V5]
    for quote, body, size in ((longer, 2, 584), (longer, 3, 584), (shorter, 3, 648)):
        bent = quote[:48] + struct.pack("<HI", body, size) + quote[54:]
        assert reason(bent) is QuoteProblem.MALFORMED


@pytest.mark.parametrize("name", Collateral.__struct_fields__)
def test_collateral_for_enclaves_in_any_field_is_refused(name: str) -> None:
    bent = msgspec.structs.replace(GOOD.td_collateral, **{name: getattr(GOOD.collateral, name)})
    same = getattr(GOOD.collateral, name) == getattr(GOOD.td_collateral, name)
    assert (reason(QUOTES[V4], bent) is None) is same
