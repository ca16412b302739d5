"""Packages and attestation files with TDX admit a real machine, and no different machine."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from support.samples.confidential_vms import QUOTE, TDX, td_of, verdict

from keyhouse.attestation import (
    ConfigurationRefusedError,
    ExpectedIdentity,
    IdentityRefusedError,
    QuoteProblem,
    QuoteRefusedError,
    TcbStatus,
    Tee,
    Verdict,
    read_expected_identity,
    read_form,
)
from keyhouse.attestation.appraisal import PackageRefusedError, Rule, admit, mismatches
from keyhouse.attestation.coordinator_appraisal import appraise
from keyhouse.attestation.errors import reason_for
from keyhouse.attestation.kinds.dcap.td import TdMeasurements
from keyhouse.attestation.kinds.dcap.verify import read_claims
from keyhouse.attestation.kinds.table import read_report
from keyhouse.views.measurements import bits_in_words
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse.wire.package import Package
from keyhouse_simulation.attestation_file import write_expected_identity

FIELDS = [*TdxIdentity.SIZES]
MACHINE = msgspec.convert(TDX, TdxIdentity)
RULES = Package(tdx=MACHINE)


def real() -> Verdict:
    return verdict()


def machine() -> TdMeasurements:
    td = td_of(verdict())
    assert td is not None
    return td


def binding() -> bytes:
    return verdict().report_data[:32]


def refused_by(found: Verdict, rules: Package) -> str | None:
    try:
        admit(found, rules, binding=binding())
    except PackageRefusedError as refusal:
        return refusal.rule
    return None


def other(value: str) -> list[str]:
    """Return copies of ``value`` with a bit flipped in its first, a middle or its last byte."""
    raw, found = bytes.fromhex(value), []
    for at in (0, len(raw) // 2, len(raw) - 1):
        changed = raw[at] ^ (1 << at % 8)
        found.append((raw[:at] + bytes([changed]) + raw[at + 1 :]).hex())
    return found


def with_field(field: str, value: str) -> Package:
    return Package(tdx=msgspec.convert({**TDX, field: value}, TdxIdentity))


def test_the_machine_that_a_package_names_is_admitted() -> None:
    assert refused_by(real(), RULES) is None
    assert refused_by(real(), Package(tdx=TdxIdentity(mrtd=TDX["MRTD"]))) is None
    upper = msgspec.convert({name: value.upper() for name, value in TDX.items()}, TdxIdentity)
    assert refused_by(real(), Package(tdx=upper)) is None


def test_the_fields_are_those_of_the_quote() -> None:
    assert [*TDX] == FIELDS
    body = QUOTE[48:]
    places = {"MRTD": 136, "RTMR0": 328, "RTMR1": 376, "RTMR2": 424, "RTMR3": 472}
    places |= {"MRConfigID": 184, "MROwner": 232, "MROwnerConfig": 280, "MRSeam": 16}
    places |= {"TDAttributes": 120, "XFAM": 128}
    for field, at in places.items():
        assert TDX[field] == body[at : at + TdxIdentity.SIZES[field]].hex()


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_that_is_given_has_to_match_in_every_bit(field: str) -> None:
    for value in other(TDX[field]):
        assert refused_by(real(), with_field(field, value)) == f"TDX.{field}"


@pytest.mark.parametrize("field", FIELDS)
def test_a_machine_that_differs_in_one_field_is_refused(field: str) -> None:
    """The quote differs. A register without an expected value is not compared."""
    attribute = dict(zip(FIELDS, TdxIdentity.__struct_fields__, strict=True))[field]
    for value in other(TDX[field]):
        bent = msgspec.structs.replace(
            real(), measurements=machine_with(field, bytes.fromhex(value))
        )
        assert refused_by(bent, RULES) == f"TDX.{field}"
        if field != "MRTD":
            open_there = msgspec.structs.replace(MACHINE, **{attribute: ""})
            assert refused_by(bent, Package(tdx=open_there)) is None


def machine_with(field: str, value: bytes) -> TdMeasurements:
    if field.startswith("RTMR"):
        rtmrs = [*machine().rtmrs]
        rtmrs[int(field[-1])] = value
        return msgspec.structs.replace(machine(), rtmrs=tuple(rtmrs))
    names = {"MRTD": "mrtd", "MRConfigID": "mr_config_id", "MROwner": "mr_owner"}
    names |= {"MROwnerConfig": "mr_owner_config", "MRSeam": "mr_seam"}
    names |= {"TDAttributes": "attributes", "XFAM": "xfam"}
    return msgspec.structs.replace(machine(), **{names[field]: value})


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        (Package(unique_id="00" * 32), Rule.TEE),
        (Package(), Rule.TEE),
        (Package(debug=True), Rule.TEE),
        (Package(tdx=TdxIdentity()), Rule.IDENTITY),
        (Package(tdx=TdxIdentity(rtmr1=TDX["RTMR1"])), Rule.IDENTITY),
        (Package(tdx=MACHINE, debug=True), Rule.IDENTITY),
        (Package(tdx=MACHINE, unique_id="00" * 32), Rule.IDENTITY),
        (Package(tdx=MACHINE, signer_id="00" * 32), Rule.IDENTITY),
        (Package(tdx=MACHINE, product_id=0), Rule.IDENTITY),
        (Package(tdx=MACHINE, security_version=0), Rule.IDENTITY),
    ],
)
def test_a_package_of_another_kind_or_of_two_admits_no_machine(rules: Package, rule: str) -> None:
    assert refused_by(real(), rules) == rule


def test_a_package_of_a_machine_admits_no_enclave() -> None:
    enclave = msgspec.structs.replace(real(), tee=Tee.SGX, measurements=None, mrenclave=b"1" * 32)
    assert refused_by(enclave, RULES) is Rule.TEE
    assert refused_by(msgspec.structs.replace(enclave, measurements=machine()), RULES) is Rule.TEE


def test_what_is_asked_of_every_workload_is_asked_of_a_machine_first() -> None:
    old = msgspec.structs.replace(real(), tcb_status=TcbStatus.OUT_OF_DATE)
    assert refused_by(old, RULES) is Rule.TCB_STATUS
    tolerant = msgspec.structs.replace(RULES, accepted_tcb_statuses=("OutOfDate",))
    assert refused_by(old, tolerant) is None
    soft = msgspec.structs.replace(
        real(), tcb_status=TcbStatus.SW_HARDENING_NEEDED, advisories=("INTEL-SA-00001",)
    )
    listed = msgspec.structs.replace(RULES, accepted_advisories=("INTEL-SA-00002",))
    assert refused_by(soft, listed) is Rule.ADVISORIES
    played_back = msgspec.structs.replace(real(), report_data=bytes(64))
    assert refused_by(played_back, RULES) is Rule.REPORT_DATA
    assert refused_by(msgspec.structs.replace(real(), debug=True), RULES) is Rule.DEBUG
    assert refused_by(msgspec.structs.replace(real(), measurements=None), RULES) is Rule.IDENTITY


def test_every_difference_is_told_in_order() -> None:
    nobody = TdxIdentity(*("00" * 48 for _ in FIELDS))
    found = [each.rule for each in mismatches(real(), Package(tdx=nobody))]
    zeros = {"RTMR3", "MRConfigID", "MROwner", "MROwnerConfig"}
    assert found == [f"TDX.{field}" for field in FIELDS if field not in zeros]
    [only] = mismatches(real(), with_field("RTMR1", "ab" * 48))
    assert TDX["RTMR1"] in only.problem
    assert "ab" * 48 in only.problem


def test_messages_say_which_kind_was_met_and_what_to_do() -> None:
    [for_enclaves] = mismatches(real(), Package(unique_id="00" * 32))
    assert "of a confidential VM (TDX), the package is for an SGX enclave" in for_enclaves.problem
    assert "in an SGX enclave" in for_enclaves.hint
    [for_vms] = mismatches(msgspec.structs.replace(real(), tee=Tee.SGX), RULES)
    assert "of an SGX enclave, the package is for a confidential VM (TDX)" in for_vms.problem
    [kernel] = mismatches(real(), with_field("RTMR1", "ab" * 48))
    assert kernel.problem.startswith("the confidential VM has ")
    [debug] = mismatches(msgspec.structs.replace(real(), debug=True), RULES)
    assert "without debug" in debug.hint
    [nobody] = mismatches(msgspec.structs.replace(real(), measurements=None), RULES)
    assert nobody.rule is Rule.IDENTITY


def test_bits_are_told_by_name() -> None:
    assert bits_in_words("TDAttributes", TDX["TDAttributes"]) == "SEPT_VE_DISABLE"
    assert bits_in_words("TDAttributes", "0000000000000080") == "PERFMON"
    assert bits_in_words("TDAttributes", "2102000000000000") == "DEBUG, PERF_PROF, reserved bit 9"
    assert bits_in_words("TDAttributes", "00" * 8) == "none"
    everything = bits_in_words("TDAttributes", "ff" * 8).split(", ")
    named = {at: name for at, name in enumerate(everything) if not name.startswith("reserved")}
    assert named == {
        0: "DEBUG",
        4: "HGS_PLUS_PROF",
        5: "PERF_PROF",
        6: "PMT_PROF",
        27: "LASS",
        28: "SEPT_VE_DISABLE",
        29: "MIGRATABLE",
        30: "PKS",
        31: "KL",
        62: "TPA",
        63: "PERFMON",
    }
    assert bits_in_words("XFAM", "0700020000000000") == "x87, SSE, AVX, AMX configuration"
    assert bits_in_words("MRTD", TDX["MRTD"]) == ""


# --- refused machines ---


def attributes(*, unset: int = 0, bits: tuple[int, ...] = ()) -> bytes:
    value = int.from_bytes(machine().attributes, "little") & ~unset
    return (value | sum(1 << bit for bit in bits)).to_bytes(8, "little")


ALLOWED = (27, 28, 30, 31, 62, 63)


@pytest.mark.parametrize("bit", range(64))
def test_debug_profiling_migration_and_reserved_attributes_are_refused(bit: int) -> None:
    td = msgspec.structs.replace(machine(), attributes=attributes(bits=(bit,)))
    if bit in ALLOWED:
        td.require_sound()
        return
    with pytest.raises(QuoteRefusedError) as caught:
        td.require_sound()
    assert caught.value.reason is QuoteProblem.TD_ATTRIBUTES


@pytest.mark.parametrize("bit", range(64))
def test_xfam_has_the_bits_of_the_specification(bit: int) -> None:
    value = int.from_bytes(machine().xfam, "little") ^ 1 << bit
    td = msgspec.structs.replace(machine(), xfam=value.to_bytes(8, "little"))
    if bit in {2, 5, 6, 7, 8, 9, 11, 12, 14, 15, 17, 18, 19}:
        td.require_sound()
        return
    with pytest.raises(QuoteRefusedError, match="XFAM"):
        td.require_sound()


def test_a_service_td_and_a_host_that_interrupts_are_refused() -> None:
    def with_(**changes: object) -> Callable[[], None]:
        return lambda: msgspec.structs.replace(machine(), **changes).require_sound()

    with_()()
    with_(mr_service_td=bytes(48))()
    with pytest.raises(QuoteRefusedError, match="service TD"):
        with_(mr_service_td=bytes(47) + b"\1")()
    with pytest.raises(QuoteRefusedError, match="SEPT_VE_DISABLE"):
        with_(attributes=attributes(unset=1 << 28))()


def test_a_quote_of_version_5_says_what_one_of_version_4_does_and_its_service_td() -> None:
    def version_5(kind: int, body: bytes) -> bytes:
        head = kind.to_bytes(2, "little") + len(body).to_bytes(4, "little")
        return b"\5" + QUOTE[1:48] + head + body + QUOTE[48 + 584 :]

    body = QUOTE[48 : 48 + 584]
    old = read_report(read_form(version_5(2, body)))
    assert old == read_report(read_form(QUOTE))
    service = bytes(range(48))
    new = read_report(read_form(version_5(3, body + b"\7" * 16 + service)))
    assert td_of(new) == msgspec.structs.replace(machine(), mr_service_td=service)
    assert new.report_data == old.report_data
    for tud in range(8):
        bent = body[:120] + bytes([1 << tud]) + body[121:]
        assert read_report(read_form(version_5(2, bent))).debug is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Debug mode is enabled", QuoteProblem.DEBUG),
        ("TD profiling is enabled", QuoteProblem.TD_ATTRIBUTES),
        ("TD migration is enabled", QuoteProblem.SERVICE_TD),
        ("SERVTD_EXT is enabled", QuoteProblem.SERVICE_TD),
        ("Invalid MR service TD", QuoteProblem.SERVICE_TD),
        ("SEPT_VE_DISABLE is not enabled", QuoteProblem.TD_ATTRIBUTES),
        ("Reserved bits in TD attributes are set", QuoteProblem.TD_ATTRIBUTES),
        ("TDX module SEAMATTRIBUTES mismatch at byte 0", QuoteProblem.TDX_MODULE),
        ("TDX module MRSIGNER mismatch: expected 00", QuoteProblem.TDX_MODULE),
        ("No TDX module identity with id TDX_09", QuoteProblem.TDX_MODULE),
        ("No matching TCB level found", QuoteProblem.TCB_LEVEL),
    ],
)
def test_the_librarys_refusals_of_machines_have_our_own_words(
    text: str, reason: QuoteProblem
) -> None:
    assert reason_for(text) is reason


def claimed(status: str) -> TcbStatus:
    pck = {"ppid": [0], "pce_id": [0, 0], "fmspc": [0]}
    platform = {"tcb_level": {"tcbDate": "2026-01-01T00:00:00Z"}, "pck": pck}
    claims = {
        "tcb": {"status": status, "advisory_ids": [], "eval_data_number": 1},
        "platform": {**platform, "pck_crl_num": 1, "root_ca_crl_num": 1},
        "latest_issue_date": 1,
        "earliest_expiration_date": 2,
        "qe_iden_latest_issue_date": 1,
        "qe_iden_earliest_expiration_date": 2,
    }
    return read_claims(json.dumps(claims)).tcb.status


def test_a_vm_that_was_started_before_its_platform_was_updated_is_out_of_date() -> None:
    assert [claimed(status) for status in TcbStatus] == [*TcbStatus]
    assert claimed("TDRelaunchAdvised") is TcbStatus.OUT_OF_DATE
    both = claimed("TDRelaunchAdvisedConfigurationNeeded")
    assert both is TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED
    with pytest.raises(msgspec.ValidationError):
        claimed("Fine")


# --- the expectation of clients ---


def expected(**fields: str) -> ExpectedIdentity:
    return read_expected_identity(json.dumps({"TDX": {**TDX, **fields}}).encode())


def test_an_attestation_file_names_a_machine_by_the_same_fields() -> None:
    appraise(real(), expected(), binding=binding())
    alone = read_expected_identity(json.dumps({"tdx": {"mrtd": TDX["MRTD"].upper()}}).encode())
    appraise(real(), alone, binding=binding())
    assert json.loads(write_expected_identity(alone)) == {"TDX": {"MRTD": TDX["MRTD"]}}
    assert read_expected_identity(write_expected_identity(expected())) == expected()
    empty = read_expected_identity(json.dumps({"UniqueID": "11" * 32, "TDX": None}).encode())
    assert empty == ExpectedIdentity(unique_id=b"\x11" * 32)


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "XFAM"])
def test_a_coordinator_in_another_machine_is_not_the_expected_one(field: str) -> None:
    value = TDX[field][:-8] + f"{int(TDX[field][-8:], 16) ^ 0x40:08x}"
    with pytest.raises(IdentityRefusedError, match=f"TDX.{field} "):
        appraise(real(), expected(**{field: value}), binding=binding())


def test_kinds_are_told_apart_on_both_sides() -> None:
    enclave = ExpectedIdentity(unique_id=b"1" * 32)
    with pytest.raises(IdentityRefusedError, match=r"\(TDX\)"):
        appraise(real(), enclave, binding=binding())
    bent = msgspec.structs.replace(real(), tee=Tee.SGX)
    with pytest.raises(IdentityRefusedError, match="an SGX enclave"):
        appraise(bent, expected(), binding=binding())
    with pytest.raises(IdentityRefusedError, match="no measurements"):
        appraise(msgspec.structs.replace(real(), measurements=None), expected(), binding=binding())
    debug = msgspec.structs.replace(real(), debug=True)
    with pytest.raises(IdentityRefusedError, match="Debug"):
        appraise(debug, msgspec.structs.replace(expected(), debug=True), binding=binding())


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ({"TDX": {}}, "TDX.MRTD: .*missing"),
        ({"TDX": {"RTMR1": "00" * 48}}, "TDX.MRTD: .*missing"),
        ({"TDX": {"MRTD": "00" * 47}}, "TDX.MRTD: .*96 hex"),
        ({"TDX": {"MRTD": "00" * 48, "RTMR4": ""}}, "did you mean RTMR"),
        ({"TDX": {"MRTD": "00" * 48, "XFAM": "00" * 8}}, "TDX.XFAM: "),
        ({"TDX": {"MRTD": "00" * 48}, "UniqueID": "00" * 32}, "both an enclave and TDX"),
        ({"TDX": {"MRTD": "00" * 48}, "SignerID": "00" * 32}, "both an enclave and TDX"),
        ({"TDX": {"MRTD": "00" * 48}, "ProductID": 1}, "both an enclave and TDX"),
        ({"TDX": {"MRTD": "00" * 48}, "SecurityVersion": 1}, "both an enclave and TDX"),
        ({"TDX": "00"}, "TDX: "),
    ],
)
def test_an_attestation_file_with_a_mistake_is_refused(file: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationRefusedError, match=problem):
        read_expected_identity(json.dumps(file).encode())
