"""Updates that raise security versions."""

import json
from typing import Any

import pytest
from support.samples.manifests import full, sample

from keyhouse.base.errors import InvalidError
from keyhouse.manifest.check import check_package_update, read_package_update, warnings_of_versions

CURRENT = {"frontend": 3, "backend": None, "other": 0}


def problems_of(update: object) -> list[str]:
    read = read_package_update(json.dumps(update).encode())
    assert read is not None
    with pytest.raises(InvalidError) as refused:
        check_package_update(read, CURRENT)
    return [problem.at for problem in refused.value.problems]


@pytest.mark.parametrize("version", [3, 4, 2**64 - 1])
def test_an_equal_or_higher_version_is_accepted(version: int) -> None:
    raw = json.dumps({"Packages": {"frontend": {"SecurityVersion": version}}}).encode()
    update = read_package_update(raw)
    assert update is not None
    assert list(update.packages) == ["frontend"]
    assert check_package_update(update, CURRENT) == {"frontend": version}


def test_a_version_that_no_enclave_can_report_is_warned_of() -> None:
    (warning,) = warnings_of_versions({"a": 65535, "b c": 65536})
    assert warning.at == 'Packages["b c"].SecurityVersion'


def test_null_and_empty_sections_do_not_make_it_a_full_update() -> None:
    raw = b"""{"Packages":{"frontend":{"SecurityVersion":4,"Debug":false,"UniqueID":null}},
        "Marbles":{},"Users":null,"Config":null,"TLS":{},"Infrastructures":{}}"""
    update = read_package_update(raw)
    assert update is not None
    assert check_package_update(update, CURRENT) == {"frontend": 4}


@pytest.mark.parametrize(
    "section",
    ["Infrastructures", "Marbles", "Secrets", "Users", "Roles", "RecoveryKeys", "TLS"],
)
def test_any_other_section_makes_it_a_full_update(section: str) -> None:
    document = {"Packages": {}, section: full()[section]}
    assert read_package_update(json.dumps(document).encode()) is None
    assert read_package_update(sample("full")) is None


@pytest.mark.parametrize(
    ("update", "places"),
    [
        ({}, ["Packages"]),
        ({"Packages": {"new": {"SecurityVersion": 1}}}, ["Packages.new"]),
        ({"Packages": {"frontend": {}}}, ["Packages.frontend.SecurityVersion"]),
        ({"Packages": {"frontend": {"SecurityVersion": 2}}}, ["Packages.frontend.SecurityVersion"]),
        ({"Packages": {"backend": {"SecurityVersion": 2}}}, ["Packages.backend.SecurityVersion"]),
        (
            {"Packages": {"frontend": {"SecurityVersion": 4}}, "Config": {"UpdateThreshold": 1}},
            ["Config"],
        ),
        (
            {"Packages": {"frontend": {"SecurityVersion": 4}}, "Typo": 1},
            ["Typo"],
        ),
    ],
)
def test_other_updates_of_packages_are_refused(update: object, places: list[str]) -> None:
    assert problems_of(update) == places


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Debug", True),
        ("UniqueID", "ab"),
        ("SignerID", "ab"),
        ("ProductID", 0),
        ("AcceptedTCBStatuses", ["UpToDate"]),
        ("AcceptedAdvisories", ["x"]),
        ("TDX", {"MRTD": "ab"}),
        ("TDX", {}),
    ],
)
def test_other_fields_cannot_be_changed(field: str, value: Any) -> None:
    update = {"Packages": {"frontend": {"SecurityVersion": 4, field: value}}}
    assert problems_of(update) == [f"Packages.frontend.{field}"]


def test_all_problems_are_told_and_nothing_is_applied() -> None:
    update = {"Packages": {"x": {}, "frontend": {"SecurityVersion": 1}, "other": {"Debug": True}}}
    assert problems_of(update) == [
        "Packages.frontend.SecurityVersion",
        "Packages.other.Debug",
        "Packages.other.SecurityVersion",
        "Packages.x",
    ]


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"Packages":{"a":{"SecurityVersion":"4"}}}'])
def test_what_cannot_be_read_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidError):
        read_package_update(raw)
