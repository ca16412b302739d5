"""A package with SEV-SNP admits the named confidential VM, and no different VM."""

from typing import Any

import msgspec
import pytest
from support.samples.snp_vms import SNP, snp_of, verdict

from keyhouse.attestation import (
    ConfigurationRefusedError,
    ExpectedIdentity,
    IdentityRefusedError,
    SnpTcb,
    Verdict,
    quote_binding,
    read_expected_identity,
    report_data,
)
from keyhouse.attestation.appraisal import PackageRefusedError, Rule, admit, mismatches
from keyhouse.attestation.coordinator_appraisal import appraise
from keyhouse.wire.kinds.identity import FieldMismatch
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse.wire.package import Package
from keyhouse_simulation import SimulatedPlatform, make_machine
from keyhouse_simulation.attestation_file import write_expected_identity
from keyhouse_simulation.platform import utc_now

MACHINE = SimulatedPlatform(make_machine(utc_now()))
BOUND = quote_binding(b"certificate")
REAL = verdict(MACHINE, report_data(BOUND))
IDENTITY = msgspec.convert(SNP, SnpIdentity)
FLOOR = SNP["MinimumTCB"]


def named(**bent: Any) -> Package:
    return Package(snp=msgspec.convert({**SNP, **bent}, SnpIdentity))


def refused_by(rules: Package, found: Verdict = REAL) -> str | None:
    try:
        admit(found, rules, binding=BOUND)
    except PackageRefusedError as refusal:
        return refusal.rule
    return None


def test_the_vm_that_a_package_names_is_admitted() -> None:
    assert refused_by(named()) is None
    assert REAL.vm == IDENTITY
    least = {"Measurement": SNP["Measurement"], "Product": "Genoa", "MinimumTCB": FLOOR}
    assert refused_by(Package(snp=msgspec.convert(least, SnpIdentity))) is None
    loud = {name: value.upper() for name, value in SNP.items() if isinstance(value, str)}
    del loud["Product"]
    assert refused_by(named(**loud)) is None


HEX = [name for name, value in SNP.items() if name not in {"Product", "SigningKey"}
       and isinstance(value, str)]  # fmt: skip


@pytest.mark.parametrize("field", HEX)
@pytest.mark.parametrize("bit", [0, 77, -1])
def test_each_field_that_is_given_has_to_match_in_every_bit(field: str, bit: int) -> None:
    raw = bytearray.fromhex(SNP[field])
    raw[bit // 8 % len(raw) if bit >= 0 else -1] ^= 1 << bit % 8
    assert refused_by(named(**{field: raw.hex()})) == f"SNP.{field}"


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        (named(Product="Milan"), "SNP.Product"),
        (named(VMPL=1), "SNP.VMPL"),
        (named(SigningKey="VLEK"), "SNP.SigningKey"),
        (named(MinimumGuestSVN=8), "SNP.MinimumGuestSVN"),
        (named(MinimumGuestSVN=2**32 - 1), "SNP.MinimumGuestSVN"),
        (named(MinimumTCB=None), "SNP.MinimumTCB"),
        *((named(MinimumTCB={**FLOOR, name: FLOOR[name] + 1}), "SNP.MinimumTCB") for name in FLOOR),
        (named(MinimumTCB={**FLOOR, "FMC": 0}), "SNP.MinimumTCB"),
        (named(Measurement=""), Rule.IDENTITY),
        (Package(snp=IDENTITY, debug=True), Rule.IDENTITY),
        (Package(snp=IDENTITY, unique_id="00" * 32), Rule.IDENTITY),
        (Package(snp=IDENTITY, product_id=0), Rule.IDENTITY),
        (Package(unique_id="00" * 32), Rule.TCB_STATUS),
        (Package(tdx=TdxIdentity(mrtd="00" * 48)), Rule.TCB_STATUS),
    ],
)
def test_any_other_package_does_not_admit_it(rules: Package, rule: str) -> None:
    assert refused_by(rules) == rule


def test_versions_above_the_floor_are_admitted_and_each_of_the_four_counts() -> None:
    lower = {name: max(0, version - 1) for name, version in FLOOR.items()}
    assert refused_by(named(MinimumTCB=lower)) is None
    for which in ("committed_tcb", "current_tcb", "launch_tcb"):
        for at in (0, 6, 7):
            old = bytearray.fromhex("0a00000000001754")
            old[at] -= 1
            found = verdict(MACHINE, report_data(BOUND), **{which: bytes(old)})
            assert refused_by(named(), found) == "SNP.MinimumTCB"
            assert isinstance(found.vm, SnpIdentity)
            assert refused_by(Package(snp=found.vm), found) is None


def test_a_higher_version_of_the_guest_is_admitted_and_a_lower_one_is_not() -> None:
    for least in (0, 6, 7):
        assert refused_by(named(MinimumGuestSVN=least)) is None
    lower = verdict(MACHINE, report_data(BOUND), guest_svn=6)
    with pytest.raises(PackageRefusedError, match=r"SNP\.MinimumGuestSVN: .* 6, .* 7 "):
        admit(lower, named(), binding=BOUND)


@pytest.mark.parametrize("version", [2, 3, 5])
def test_a_platform_whose_memory_was_not_checked_for_aliases_is_refused_on_demand(
    version: int,
) -> None:
    bent = {"version": version, "platform_info": 0b1001_1111}
    found = verdict(MACHINE, report_data(BOUND), **bent)
    assert refused_by(named(), found) == "SNP.AliasCheckComplete"
    assert refused_by(named(AliasCheckComplete=False), found) is None
    checked = verdict(MACHINE, report_data(BOUND), version=version, platform_info=0b10_0000)
    assert refused_by(named(), checked) is None


def test_other_kinds_of_workloads_are_not_admitted_by_it() -> None:
    for tee in (MACHINE.quote(report_data(BOUND)), MACHINE.td_quote(None, report_data(BOUND))):
        collateral = MACHINE.collateral if tee[0] == 3 else MACHINE.td_collateral
        from keyhouse.attestation import Verifier

        found = Verifier(MACHINE.root_ca).verify(tee, collateral, utc_now())
        rules = {each.rule for each in mismatches(found, named())}
        assert rules == {Rule.TEE}


def test_what_is_played_back_is_refused() -> None:
    assert refused_by(named(), verdict(MACHINE, bytes(64))) is Rule.REPORT_DATA


def test_turin_has_a_version_more() -> None:
    tcb = SnpTcb(1, 2, 3, 4, 5)
    turin = msgspec.structs.replace(
        snp_of(REAL), product="Turin", reported_tcb=tcb, committed_tcb=tcb, current_tcb=tcb,
        launch_tcb=tcb)  # fmt: skip
    found = msgspec.structs.replace(REAL, measurements=turin)
    floor = {"Bootloader": 1, "TEE": 2, "SNP": 3, "Microcode": 4, "FMC": 5}
    assert refused_by(named(Product="Turin", MinimumTCB=floor), found) is None
    over = named(Product="Turin", MinimumTCB={**floor, "FMC": 6})
    assert refused_by(over, found) == "SNP.MinimumTCB"


def test_attestation_files_name_it_by_the_same_rules() -> None:
    expected = ExpectedIdentity(snp=IDENTITY)
    assert read_expected_identity(write_expected_identity(expected)) == expected
    appraise(REAL, expected, binding=BOUND)
    other = msgspec.structs.replace(IDENTITY, vmpl=1)
    with pytest.raises(IdentityRefusedError, match=r"SNP\.VMPL"):
        appraise(REAL, ExpectedIdentity(snp=other), binding=BOUND)
    with pytest.raises(IdentityRefusedError, match="no TCB status"):
        appraise(REAL, ExpectedIdentity(unique_id=bytes(32)), binding=BOUND)
    with pytest.raises(ConfigurationRefusedError, match="both TDX and SNP"):
        ExpectedIdentity(snp=IDENTITY, tdx=TdxIdentity(mrtd="00" * 48))
    with pytest.raises(ConfigurationRefusedError, match="both an enclave and SNP"):
        ExpectedIdentity(snp=IDENTITY, unique_id=bytes(32))


def test_an_identity_that_is_read_from_a_report_has_its_level_and_its_key() -> None:
    lent = snp_of(verdict(MACHINE, report_data(BOUND), vmpl=2))
    assert lent is not None
    lent = msgspec.structs.replace(lent, signing_key="VLEK")
    assert lent.identity == msgspec.structs.replace(IDENTITY, vmpl=2, signing_key="VLEK")


def test_differences_say_what_was_found_and_name_the_first_version_that_is_too_low() -> None:
    milan = msgspec.structs.replace(IDENTITY, product="Milan")
    unread = msgspec.structs.replace(snp_of(REAL), product="")
    for measured, found in ((snp_of(REAL), "Genoa"), (unread, "unknown")):
        assert list(measured.differences(milan)) == [FieldMismatch("Product", found, "Milan")]
    higher = msgspec.structs.replace(IDENTITY, minimum_tcb=SnpTcb(11, 0, 23, 84))
    [only] = snp_of(REAL).differences(higher)
    assert only.found == (
        "Bootloader 10, TEE 0, SNP 23, Microcode 84 (reported; too low: Bootloader)"
    )
