"""Packages of confidential VMs of SEV-SNP: what the check refuses, and what they leave open."""

from typing import Any

import pytest
from support.samples.confidential_vms import TDX
from support.samples.manifests import package_refused, package_warned
from support.samples.snp_vms import SNP

from keyhouse.wire.kinds.snp import SnpIdentity, is_debugged, policy_fault

FLOOR = SNP["MinimumTCB"]


def test_a_package_with_every_field_is_taken_without_a_warning() -> None:
    assert package_warned({"SNP": SNP}) == {}
    turin = {**SNP, "Product": "Turin", "MinimumTCB": {**FLOOR, "FMC": 0}}
    for other in (turin, {**SNP, "Product": "Milan"}, {**SNP, "SigningKey": "VLEK"}):
        assert package_warned({"SNP": other}) == {}
    assert list(package_warned({"SNP": {**SNP, "VMPL": 3}})) == ["SNP.VMPL"]


def without(*fields: str) -> dict[str, Any]:
    return {name: value for name, value in SNP.items() if name not in fields}


@pytest.mark.parametrize(
    ("snp", "place", "problem"),
    [
        (without("Measurement"), "SNP.Measurement", "is missing"),
        ({**SNP, "Measurement": "00" * 32}, "SNP.Measurement", "is not 96 hex digits"),
        ({**SNP, "HostData": "00" * 48}, "SNP.HostData", "is not 64 hex digits"),
        ({**SNP, "FamilyID": "x" * 32}, "SNP.FamilyID", "is not 32 hex digits"),
        ({**SNP, "Policy": "1f000b0000000000"}, "SNP.Policy", "can be debugged"),
        ({**SNP, "Policy": "1f00070000000000"}, "SNP.Policy", "migration agent"),
        ({**SNP, "Policy": "1f00010000000000"}, "SNP.Policy", "reserved bits"),
        ({**SNP, "Policy": "1f00020400000000"}, "SNP.Policy", "reserved bits"),
        (without("Product"), "SNP.Product", "is missing"),
        ({**SNP, "Product": "genoa"}, "SNP.Product", "is not a known line"),
        (without("MinimumTCB"), "SNP.MinimumTCB", "is missing"),
        ({**SNP, "MinimumTCB": {}}, "SNP.MinimumTCB.Microcode", "is missing"),
        ({**SNP, "MinimumTCB": {**FLOOR, "SNP": 256}}, "SNP.MinimumTCB.SNP", ""),
        ({**SNP, "MinimumTCB": {**FLOOR, "FMC": 1}}, "SNP.MinimumTCB.FMC", "of the line Turin"),
        ({**SNP, "Product": "Turin"}, "SNP.MinimumTCB.FMC", "is missing"),
        ({**SNP, "VMPL": 4}, "SNP.VMPL", "is not 0, 1, 2 or 3"),
        ({**SNP, "MinimumGuestSVN": -1}, "SNP.MinimumGuestSVN", ""),
        ({**SNP, "MinimumGuestSVN": 2**32}, "SNP.MinimumGuestSVN", ""),
        ({**SNP, "AliasCheckComplete": "true"}, "SNP.AliasCheckComplete", ""),
        ({**SNP, "SigningKey": "ARK"}, "SNP.SigningKey", "is neither VCEK nor VLEK"),
        ({**SNP, "Meassurement": ""}, "SNP.Meassurement", "unknown field"),
    ],
)
def test_what_would_admit_nobody_or_anybody_is_refused(
    snp: dict[str, Any], place: str, problem: str
) -> None:
    found = package_refused({"SNP": snp})
    assert any(each.at == f"Packages.vm.{place}" and problem in each.problem for each in found)


def test_hints_name_the_lines_of_processors() -> None:
    hints = {
        name: package_refused({"SNP": {**SNP, "Product": name}})[0].hint
        for name in ("genoa", "Rome")
    }
    assert hints == {"genoa": "did you mean Genoa?", "Rome": "use one of Milan, Genoa, Turin"}


def test_a_policy_of_another_length_is_told_once() -> None:
    [found] = package_refused({"SNP": {**SNP, "Policy": "1f000b"}})
    assert found.problem == "is not 16 hex digits"


# Source: AMD, 56860, table "Guest Policy".
BITS = {
    16: "SMT",
    17: "always 1",
    18: "MIGRATE_MA",
    19: "DEBUG",
    20: "SINGLE_SOCKET",
    21: "CXL_ALLOW",
    22: "MEM_AES_256_XTS",
    23: "RAPL_DIS",
    24: "CIPHERTEXT_HIDING_DRAM",
    25: "PAGE_SWAP_DISABLE",
}


def test_bits_of_the_policy_have_the_names_that_amd_gives_them() -> None:
    assert SnpIdentity.BITS["Policy"] == BITS
    assert "Measurement" not in SnpIdentity.BITS
    for bit in range(64):
        policy = (1 << 17 | 1 << bit).to_bytes(8, "little")
        assert is_debugged(policy) == (bit == 19)
        assert bool(policy_fault(policy)) == (bit in {18, 19} or bit > 25), bit


@pytest.mark.parametrize(
    "beside",
    [{"Debug": True}, {"UniqueID": "00" * 32}, {"ProductID": 0}, {"SecurityVersion": 1},
     {"TDX": TDX}],
)  # fmt: skip
def test_a_package_names_one_kind(beside: dict[str, Any]) -> None:
    [found] = package_refused({"SNP": SNP, **beside})
    assert found.problem == f"has an ambiguous identity: SNP together with {next(iter(beside))}"


@pytest.mark.parametrize(
    "lists", [{"AcceptedTCBStatuses": ["OutOfDate"]}, {"AcceptedAdvisories": ["INTEL-SA-00001"]}]
)
def test_words_of_intel_say_nothing_of_amds_platforms(lists: dict[str, Any]) -> None:
    [found] = package_refused({"SNP": SNP, **lists})
    assert "AMD states no TCB status" in found.problem


def test_what_a_package_leaves_to_the_host_is_told() -> None:
    found = package_warned({"SNP": without("Policy", "HostData", "IDKeyDigest", "AuthorKeyDigest")})
    assert "the host chooses the policy" in found["SNP.Policy"]
    assert "anybody can claim" in found["SNP"] or "does not give HostData" in found["SNP"]
    assert "higher privilege" in package_warned({"SNP": {**SNP, "VMPL": 2}})["SNP.VMPL"]
    assert "claimed by anybody" in found["SNP.MinimumGuestSVN"]
