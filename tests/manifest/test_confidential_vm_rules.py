"""Packages of confidential VMs: what the check refuses, and what it says that they leave open."""

from typing import Any

import pytest
from support.samples.confidential_vms import TDX
from support.samples.manifests import (
    changed_package,
    fully_checked,
    package_refused,
    package_warned,
    sample,
)

from keyhouse.manifest import decode
from keyhouse.manifest.diff import diff

BY_NAME = {"MRTD": TDX["MRTD"]}
BESIDE = ("Debug", "UniqueID", "SignerID", "ProductID", "SecurityVersion")


def test_a_package_with_every_field_is_taken_without_a_warning() -> None:
    assert package_warned({"TDX": TDX}) == {}
    both = {"TDX": TDX, "AcceptedTCBStatuses": ["OutOfDate"], "AcceptedAdvisories": ["INTEL-SA-1"]}
    assert package_warned(both) == {}


def test_capitals_and_names_in_any_case_mean_the_same() -> None:
    loud = {name.lower(): value.upper() for name, value in TDX.items()}
    written, plain = changed_package({"tdx": loud}), changed_package({"TDX": TDX})
    assert fully_checked(written).manifest.packages == fully_checked(plain).manifest.packages
    assert diff(decode(written), decode(plain)) == ()


@pytest.mark.parametrize(
    ("tdx", "place", "problem"),
    [
        ({}, "TDX.MRTD", "is missing"),
        ({"MRTD": None}, "TDX.MRTD", "is missing"),
        ({"RTMR0": TDX["RTMR0"], "RTMR1": TDX["RTMR1"]}, "TDX.MRTD", "is missing"),
        ({"MRTD": TDX["MRTD"][:-1]}, "TDX.MRTD", "is not 96 hex digits"),
        ({"MRTD": "0x" + TDX["MRTD"][2:]}, "TDX.MRTD", "is not 96 hex digits"),
        ({"MRTD": "\uff10" * 96}, "TDX.MRTD", "is not 96 hex digits"),
        ({**TDX, "RTMR2": "00" * 32}, "TDX.RTMR2", "is not 96 hex digits"),
        ({**TDX, "MRConfigID": "00" * 49}, "TDX.MRConfigID", "is not 96 hex digits"),
        ({**TDX, "TDAttributes": "00" * 48}, "TDX.TDAttributes", "is not 16 hex digits"),
        ({**TDX, "XFAM": " " + "00" * 7}, "TDX.XFAM", "is not 16 hex digits"),
        ({**TDX, "TDAttributes": "0100001000000000"}, "TDX.TDAttributes", "can be debugged"),
        ({**TDX, "TDAttributes": "2000001000000000"}, "TDX.TDAttributes", "or profiled"),
        ({**TDX, "TDAttributes": "0000003000000000"}, "TDX.TDAttributes", "can be moved"),
        ({**TDX, "TDAttributes": "0001001000000000"}, "TDX.TDAttributes", "reserved"),
        ({**TDX, "TDAttributes": "0000000000000000"}, "TDX.TDAttributes", "SEPT_VE_DISABLE"),
        ({**TDX, "XFAM": "0000000000000000"}, "TDX.XFAM", "lacks a feature"),
        ({**TDX, "XFAM": "0b00000000000000"}, "TDX.XFAM", "reserved"),
        ({**TDX, "RTMR4": "00" * 48}, "TDX.RTMR4", "unknown field"),
        ({**TDX, "MRTD": 7}, "TDX.MRTD", "is a number"),
    ],
)
def test_an_identity_with_a_mistake_is_refused_at_its_place(
    tdx: dict[str, Any], place: str, problem: str
) -> None:
    [found] = package_refused({"TDX": tdx})
    assert found.at == f"Packages.vm.{place}"
    assert problem in found.problem


def test_a_misspelt_field_is_recognized() -> None:
    for wrong, meant in (("MRTDD", "MRTD"), ("MRConfig", "MRConfigID"), ("XFAN", "XFAM")):
        [found] = package_refused({"TDX": {**TDX, wrong: "00"}})
        assert found.hint == f"did you mean {meant}?"


@pytest.mark.parametrize("field", BESIDE)
def test_a_package_is_of_one_kind(field: str) -> None:
    value = {"Debug": True, "UniqueID": "ab" * 32, "SignerID": "ab" * 32}.get(field, 0)
    [found] = package_refused({"TDX": TDX, field: value})
    assert found.at == "Packages.vm"
    assert found.problem == f"has an ambiguous identity: TDX together with {field}"


def test_what_a_package_leaves_to_the_host_is_told() -> None:
    assert package_warned({"TDX": {**TDX, "RTMR1": ""}}) == {
        "TDX.RTMR1": "is not given: any kernel is admitted"
    }
    without_mr_seam = {name: value for name, value in TDX.items() if name != "MRSeam"}
    assert package_warned({"TDX": without_mr_seam}) == {}
    assert set(package_warned({"TDX": {**TDX, "RTMR0": None, "RTMR2": ""}})) == {
        "TDX.RTMR0",
        "TDX.RTMR2",
    }
    assert set(package_warned({"TDX": {**BY_NAME, "RTMR3": TDX["RTMR3"]}})) == {
        "TDX",
        "TDX.RTMR0",
        "TDX.RTMR1",
        "TDX.RTMR2",
    }


def test_a_package_without_registers_is_told_that_any_kernel_is_admitted() -> None:
    found = fully_checked(changed_package({"TDX": BY_NAME})).warnings
    given, registers = (each.problem for each in found if each.at == "Packages.vm.TDX")
    assert given.startswith("does not give MRConfigID, MROwner, MROwnerConfig, so the host")
    assert registers == "names no RTMR: any kernel with any command line is admitted"


def test_one_register_is_enough_for_a_warning_of_each_other() -> None:
    for register in ("RTMR0", "RTMR1", "RTMR2"):
        whole = {name: value for name, value in TDX.items() if not name.startswith("RTMR")}
        found = package_warned({"TDX": {**whole, register: TDX[register]}})
        assert set(found) == {f"TDX.RTMR{number}" for number in range(3)} - {f"TDX.{register}"}


def test_a_register_of_zeros_is_as_open_as_none() -> None:
    zeros = "00" * 48
    assert (
        "as if the boot measures nothing"
        in package_warned({"TDX": {**TDX, "RTMR1": zeros}})["TDX.RTMR1"]
    )
    assert package_warned({"TDX": {**TDX, "RTMR3": zeros, "MROwner": zeros}}) == {}


def test_a_manifest_from_before_reads_as_before() -> None:
    manifest = decode(sample("full"))
    assert manifest.raw == sample("full")
    assert [package.tdx for package in manifest.packages.values()] == [None] * len(
        manifest.packages
    )


def test_a_diff_names_the_field_of_the_machine() -> None:
    whole = changed_package({"TDX": TDX})
    [found] = diff(decode(whole), decode(changed_package({"TDX": {**TDX, "RTMR1": "ab" * 48}})))
    assert (found.field, found.old, found.new) == (("TDX", "RTMR1"), TDX["RTMR1"], "ab" * 48)
    [opened] = diff(decode(whole), decode(changed_package({"TDX": {**TDX, "RTMR1": ""}})))
    assert (opened.field, opened.new) == (("TDX", "RTMR1"), "")
