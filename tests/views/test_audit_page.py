"""The page for auditors: its traffic light, what it escapes, and manifests in words."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import GOLDEN, Maker, golden_pins, history
from support.samples.updates import together

from keyhouse.attestation import INTEL_SGX_ROOT
from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.verify import Verified, examine
from keyhouse.views.audit.inputs import Given, GivenFile
from keyhouse.views.audit.manifests import MOST_CHANGES, changes_in_words, rules_in_words
from keyhouse.views.audit.page import page_of
from keyhouse.views.audit.traffic_light import light_of

GIVEN = Given(GivenFile.of("FILE", "a.evidence.json", b"a file"))


@pytest.fixture(scope="module", name="maker")
def _maker() -> Maker:
    return Maker()


def examined(**pins: Any) -> Verified:
    evidence = read_evidence((GOLDEN / "deployment.evidence.json").read_bytes())
    return examine(evidence, replace(golden_pins(), **pins))


def on_hardware(verified: Verified) -> Verified:
    """Return ``verified`` as if Intel's root had vouched for its quotes."""
    assert verified.pins is not None
    return replace(verified, pins=replace(verified.pins, vendor_root=INTEL_SGX_ROOT))


def test_only_a_file_without_gaps_on_real_hardware_is_green() -> None:
    whole, forked = examined(), examined(policy=None)
    allowed = examined(policy=None, allowed=frozenset({Gap.NO_WITNESSES}))

    assert light_of(on_hardware(whole)).colour == "green"
    assert light_of(on_hardware(forked)).colour == "red"
    assert light_of(on_hardware(allowed)).colour == "amber"
    assert light_of(examine(whole.evidence, None)).colour == "grey"


def test_no_simulation_is_green_and_a_refused_one_is_red() -> None:
    assert light_of(examined()).colour == "amber"
    assert light_of(examined()).headline.startswith("Simulation. ")
    refused = light_of(examined(policy=None))
    assert refused.colour == "red"
    assert refused.headline.startswith("Simulation. Not proven")


def test_a_page_escapes_what_the_file_says(maker: Maker) -> None:
    said = history(maker)
    said[2]["version"] = "<script>alert(1)</script>\u202e"

    page = page_of(examine(maker.evidence(said), maker.pins()), GIVEN).decode()

    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert "simulated" in page


def test_a_page_names_the_evidence_file_by_its_hash() -> None:
    page = page_of(examined(), GIVEN).decode()

    assert GIVEN.evidence.sha256 in page


def test_changes_that_a_person_cannot_review_are_cut_off() -> None:
    def grow(document: dict[str, Any]) -> None:
        definition = {"Type": "plain", "UserDefined": True}
        names = (f"secret{number}" for number in range(2 * MOST_CHANGES))
        document["Secrets"] |= dict.fromkeys(names, definition)

    found = changes_in_words(together(), together(grow), {})

    assert len(found) == MOST_CHANGES + 1
    assert found[-1].startswith(f"more than {MOST_CHANGES} changes")


def test_the_same_manifest_in_another_spelling_has_no_change_of_meaning() -> None:
    spelled = json.dumps(json.loads(together()), indent=1).encode()

    assert changes_in_words(together(), spelled, {}) == [
        "no change of meaning: the two manifests are spelled differently"
    ]


def test_a_manifest_that_cannot_be_read_is_not_compared() -> None:
    assert changes_in_words(b"{}x", together(), {}) == changes_in_words(together(), b"{}x", {})
    assert "cannot" in changes_in_words(b"{}x", together(), {})[0]
    assert rules_in_words(b"{}x", {}) == {"Manifest": ["this version cannot read the manifest"]}


def test_rules_name_who_may_do_what_with_versions_that_were_raised() -> None:
    rules = rules_in_words(together(holders=("ann", "ben")), {"app": 9})

    assert rules["Updates"][0] == "2 of 3 users have to agree to a change: alice, bob, carol"
    assert "writer: may read note (ReadSecret); may upload note (WriteSecret)" in rules["Users"]
    assert rules["Code"][0].endswith("SecurityVersion 9")
    assert rules["Recovery"] == ["2 of 2 holders of recovery keys: ann, ben"]
