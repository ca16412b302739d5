"""``Config.Replicas``: who may be named, what is refused, and what the check warns of."""

from typing import Any

import pytest
from support.samples.confidential_vms import TDX
from support.samples.manifests import changed, fully_checked

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.manifest import Replicas, decode
from keyhouse.manifest.diff import diff

CODE, PPID = "ab" * 32, "0f" * 16
SIGNED = {"SignerID": CODE, "ProductID": 1, "SecurityVersion": 2}


def with_replicas(replicas: object, mode: str = "UniqueKey") -> bytes:
    config = {"Replicas": replicas, "SealMode": mode}
    return changed(lambda document: document.update(Config=config))


def refused(replicas: object) -> tuple[Problem, ...]:
    with pytest.raises(InvalidError) as caught:
        fully_checked(with_replicas(replicas))
    return caught.value.problems


def warned(replicas: object, mode: str = "UniqueKey") -> dict[str, str]:
    found = fully_checked(with_replicas(replicas, mode)).warnings
    return {each.at: each.problem for each in found if each.at.startswith("Config.Replicas")}


def test_without_the_section_nobody_is_admitted() -> None:
    for raw in (changed(lambda _: None), with_replicas(None)):
        assert decode(raw).config.replicas is None
    assert decode(with_replicas({})).config.replicas == Replicas()


def test_everything_that_it_can_say_is_taken_without_a_warning() -> None:
    replicas = {
        "Code": [{"UniqueID": CODE}, {"TDX": TDX}],
        "AcceptedTCBStatuses": ["SWHardeningNeeded"],
        "Platforms": [PPID, "AB" * 64],
    }
    assert warned(replicas) == {}


def test_what_means_the_same_is_the_same() -> None:
    one = {"Code": [{"UniqueID": CODE}, SIGNED], "Platforms": [PPID], "AcceptedTCBStatuses": []}
    other = {
        "code": [SIGNED, {"uniqueid": CODE.upper()}, {"UniqueID": CODE}],
        "platforms": [PPID.upper(), PPID],
    }
    assert decode(with_replicas(one)).config == decode(with_replicas(other)).config
    assert diff(decode(with_replicas(one)), decode(with_replicas(other))) == ()


def test_a_difference_says_where_it_is() -> None:
    old, new = decode(with_replicas({})), decode(with_replicas({"Platforms": [PPID]}))
    [change] = diff(old, new)
    assert (change.section, change.field, change.new) == (
        "Config",
        ("Replicas", "Platforms"),
        [PPID],
    )
    [whole] = diff(decode(with_replicas(None)), old)
    assert (whole.kind, whole.field) == ("added", ("Replicas",))


@pytest.mark.parametrize(
    ("replicas", "place", "problem"),
    [
        ({"Code": [{}]}, "Code[0].SignerID", "is missing"),
        ({"Code": [None]}, "Code[0].SignerID", "is missing"),
        ({"Code": [{"UniqueID": "ab"}]}, "Code[0].UniqueID", "is not 64 hex digits"),
        ({"Code": [{"UniqueID": CODE, **SIGNED}]}, "Code[0]", "ambiguous identity"),
        ({"Code": [{"UniqueID": CODE, "TDX": TDX}]}, "Code[0]", "ambiguous identity"),
        ({"Code": [{"TDX": {}}]}, "Code[0].TDX.MRTD", "is missing"),
        (
            {"Code": [{"UniqueID": CODE, "AcceptedTCBStatuses": ["UpToDate"]}]},
            "Code[0].AcceptedTCBStatuses",
            "is not a field",
        ),
        (
            {"Code": [{"UniqueID": CODE, "AcceptedAdvisories": ["INTEL-SA-1"]}]},
            "Code[0].AcceptedAdvisories",
            "is not a field",
        ),
        ({"AcceptedTCBStatuses": ["uptodate"]}, "AcceptedTCBStatuses[0]", "is not a TCB status"),
        ({"Platforms": [PPID, PPID[:-1]]}, "Platforms[1]", "is not a platform's ID"),
        ({"Platforms": [PPID + "\n"]}, "Platforms[0]", "is not a platform's ID"),
        ({"Platforms": [""]}, "Platforms[0]", "is not a platform's ID"),
        ({"Eviction": "any"}, "Eviction", "unknown field"),
    ],
)
def test_what_it_cannot_say_is_refused(replicas: object, place: str, problem: str) -> None:
    found = refused(replicas)
    assert f"Config.Replicas.{place}" in [each.at for each in found]
    assert any(problem in each.problem for each in found)


@pytest.mark.parametrize(
    ("replicas", "mode", "place", "problem"),
    [
        ({}, "", "", "does not bind the coordinator's own signer"),
        ({}, "ProductKey", "", "does not bind the coordinator's own signer"),
        ({}, "Disabled", "", "has no effect with SealMode Disabled"),
        ({"Code": [SIGNED]}, "UniqueKey", ".Code[0]", "code that the signer signs later"),
        ({"AcceptedTCBStatuses": ["Revoked"]}, "UniqueKey", ".AcceptedTCBStatuses[0]", "never"),
        ({"Code": [{"Debug": True}]}, "UniqueKey", ".Code[0].Debug", "admits nobody"),
    ],
)
def test_what_makes_it_weaker_than_it_looks_is_told(
    replicas: dict[str, Any], mode: str, place: str, problem: str
) -> None:
    found = warned(replicas, mode)
    assert list(found) == [f"Config.Replicas{place}"]
    assert problem in found[f"Config.Replicas{place}"]
