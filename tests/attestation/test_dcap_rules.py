"""The locked library has the rules of ``docs/reference/evidence-quotes.md``.

The vendor signs each changed document, so only the rule under test can refuse the document.
"""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from keyhouse.attestation import Collateral, QuoteRefusedError, TcbStatus, Verdict, Verifier
from keyhouse_simulation import (
    Lists,
    QeIdentity,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)
from keyhouse_simulation.certificates import issue_list
from keyhouse_simulation.machine import sign

NOW: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
MACHINE: Final = make_machine(NOW)
PLATFORM: Final = SimulatedPlatform(MACHINE, now=lambda: NOW)
GOOD: Final = PLATFORM.collateral
QUOTE: Final = PLATFORM.quote(bytes(64))

Document = dict[str, Any]
Change = Callable[[Document], object]


def signed(tcb_info: Change | None = None, qe_identity: Change | None = None) -> Collateral:
    """Return the collateral with both documents changed and signed again."""
    texts = []
    for text, change in ((GOOD.tcb_info, tcb_info), (GOOD.qe_identity, qe_identity)):
        document = json.loads(text)
        if change is not None:
            change(document)
        texts.append(json.dumps(document))
    return replace(
        GOOD,
        tcb_info=texts[0],
        tcb_info_signature=sign(MACHINE.tcb_key, texts[0].encode()),
        qe_identity=texts[1],
        qe_identity_signature=sign(MACHINE.tcb_key, texts[1].encode()),
    )


def verdict(collateral: Collateral) -> Verdict:
    return Verifier(PLATFORM.root_ca).verify(QUOTE, collateral, NOW)


def status(collateral: Collateral) -> str:
    """Return the status of the platform, or the reason of the refusal."""
    try:
        return str(verdict(collateral).tcb_status)
    except QuoteRefusedError as refused:
        return f"refused: {refused.reason}"


def with_status(value: str) -> Change:
    return lambda document: document["tcbLevels"][0].update(tcbStatus=value)


UP, OLD, REVOKED = TcbStatus.UP_TO_DATE, TcbStatus.OUT_OF_DATE, TcbStatus.REVOKED
CONFIGURE, HARDEN = TcbStatus.CONFIGURATION_NEEDED, TcbStatus.SW_HARDENING_NEEDED
OLD_TOO: Final = TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED
BOTH: Final = TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED
NOT_REVOKED: Final = [each for each in TcbStatus if each != REVOKED]


@pytest.mark.parametrize("platform", NOT_REVOKED)
def test_the_status_is_the_platforms_unless_the_quoting_enclave_is_out_of_date(
    platform: TcbStatus,
) -> None:
    for enclave in (UP, CONFIGURE, OLD_TOO):
        assert status(signed(with_status(platform), with_status(enclave))) == platform
    needs = platform in {CONFIGURE, BOTH, OLD_TOO}
    merged = status(signed(with_status(platform), with_status(OLD)))
    assert merged == (OLD_TOO if needs else OLD)
    for enclave in (HARDEN, BOTH):  # no quoting enclave has such a status
        assert status(signed(with_status(platform), with_status(enclave))).startswith("refused")


@pytest.mark.parametrize("other", [*TcbStatus, "Fine"])
def test_revoked_and_unknown_states_are_refused(other: str) -> None:
    assert status(signed(with_status(REVOKED), with_status(other))).startswith("refused")
    assert status(signed(with_status(other), with_status(REVOKED))).startswith("refused")
    assert status(signed(with_status("Fine"))) == "refused: collateral"


def levels(*wanted: tuple[int, int, str]) -> Change:
    """Return a change that replaces the levels by ``wanted`` levels.

    Each item has the difference of the PCESVN, the difference of a component, and the status.
    """

    def change(document: Document) -> None:
        (own,) = document["tcbLevels"]
        document["tcbLevels"] = found = []
        for pce, component, value in wanted:
            level = copy.deepcopy(own)
            level["tcb"]["pcesvn"] += pce
            level["tcb"]["sgxtcbcomponents"][0]["svn"] += component
            found.append({**level, "tcbStatus": value})

    return change


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ([(1, 0, UP), (0, 0, OLD)], OLD),
        ([(0, 1, UP), (0, 0, OLD)], OLD),
        ([(0, 0, OLD), (-1, 0, UP)], OLD),
        ([(-1, 0, UP), (0, 0, OLD)], OLD),  # the library sorts the levels first
        ([(-1, 0, OLD), (0, -1, UP)], OLD),  # components count before the PCESVN
        ([(0, -1, UP), (-1, 0, OLD)], OLD),
        ([(0, 0, OLD), (0, 0, UP)], OLD),  # equal levels keep their order
        ([(1, 0, UP), (0, 1, UP)], "refused: no-tcb-level"),
    ],
)
def test_the_level_of_the_platform_is_the_highest_that_fits(
    listed: list[tuple[int, int, str]], found: str
) -> None:
    assert status(signed(levels(*listed))) == found


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ([(1, UP), (0, OLD)], OLD),
        ([(0, OLD), (-1, UP)], OLD),
        ([(-1, OLD), (0, UP)], OLD),  # the library keeps the order of the document
        ([(1, UP)], "refused: quoting-enclave"),
        ([], "refused: no-tcb-level"),
    ],
)
def test_the_level_of_the_quoting_enclave_is_the_first_that_fits(
    listed: list[tuple[int, str]], found: str
) -> None:
    def change(document: Document) -> None:
        own = document["tcbLevels"][0]
        version = own["tcb"]["isvsvn"]
        document["tcbLevels"] = [
            {**own, "tcb": {"isvsvn": version + more}, "tcbStatus": value} for more, value in listed
        ]

    assert status(signed(None, change)) == found


def test_advisories_of_both_levels_count_and_may_be_missing() -> None:
    def with_advisories(*names: str) -> Change:
        return lambda document: document["tcbLevels"][0].update(advisoryIDs=list(names))

    both = signed(with_advisories("SA-1", "SA-2"), with_advisories("SA-2", "SA-3"))
    neither = signed(lambda document: document["tcbLevels"][0].pop("advisoryIDs"))

    assert verdict(both).advisories == ("SA-1", "SA-2", "SA-3")
    assert verdict(neither).advisories == ()


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ({"miscselect": "01000000"}, "refused: quoting-enclave"),
        ({"miscselect": "01000000", "miscselectMask": "00000000"}, UP),
        ({"attributes": "13".ljust(32, "0")}, "refused: quoting-enclave"),
        ({"attributes": "15".ljust(32, "0")}, UP),  # bit 0x04 is outside the mask
        ({"isvprodid": 2}, "refused: quoting-enclave"),
        ({"mrsigner": "4f" * 32}, "refused: quoting-enclave"),
    ],
)
def test_masks_decide_what_counts_of_the_quoting_enclave(
    identity: dict[str, object], found: str
) -> None:
    assert status(signed(None, lambda document: document.update(identity))) == found


def test_the_names_of_the_platform_match_in_any_case_of_letters() -> None:
    def change(document: Document) -> None:
        document.update(fmspc=document["fmspc"].upper(), pceId=document["pceId"].upper())

    assert status(signed(change)) == UP
    for other in ({"fmspc": "f" * 12}, {"pceId": "ffff"}):
        other_platform = signed(lambda document, other=other: document.update(other))  # type: ignore[misc]
        assert status(other_platform) == "refused: wrong-platform"


def listed(issuer: x509.Certificate, key: Any, *revoked: x509.Certificate) -> bytes:
    return issue_list(issuer, key, list(revoked), Lists(), NOW).public_bytes(Encoding.DER)


def test_each_certificate_is_looked_for_in_the_list_of_its_issuer() -> None:
    machine = MACHINE
    for each in (machine.root, machine.pck_ca, machine.tcb_signer):
        by_root = listed(machine.root, machine.root_key, each)
        assert status(replace(GOOD, root_ca_crl=by_root)) == "refused: revoked"
    by_ca = listed(machine.pck_ca, machine.pck_ca_key, machine.pck)
    assert status(replace(GOOD, pck_crl=by_ca)) == "refused: revoked"
    elsewhere = listed(machine.root, machine.root_key, machine.pck)
    assert status(replace(GOOD, root_ca_crl=elsewhere)) == UP


def test_each_list_is_signed_by_its_issuer() -> None:
    by_ca = listed(MACHINE.root, MACHINE.pck_ca_key)
    by_root = listed(MACHINE.pck_ca, MACHINE.root_key)

    assert status(replace(GOOD, root_ca_crl=by_ca)).startswith("refused")
    assert status(replace(GOOD, pck_crl=by_root)).startswith("refused")
    assert status(replace(GOOD, pck_crl=GOOD.root_ca_crl)).startswith("refused")


LONG: Final = timedelta(days=9_999)
BEGINS, ENDS = NOW - timedelta(days=1), NOW + timedelta(days=364)  # of each part of the collateral


@pytest.mark.parametrize(
    ("parameters", "last"),
    [
        (QuoteParameters(lists=Lists(valid_for=LONG), tcb_info=TcbInfo(valid_for=LONG)), ENDS),
        (
            QuoteParameters(lists=Lists(valid_for=LONG), qe_identity=QeIdentity(valid_for=LONG)),
            ENDS,
        ),
        (
            QuoteParameters(
                tcb_info=TcbInfo(valid_for=LONG), qe_identity=QeIdentity(valid_for=LONG)
            ),
            ENDS - timedelta(seconds=1),
        ),
    ],
    ids=["QE identity", "TCB info", "lists"],
)
def test_collateral_ends_to_the_second(parameters: QuoteParameters, last: datetime) -> None:
    collateral = SimulatedPlatform(MACHINE, parameters, now=lambda: NOW).collateral
    verifier = Verifier(PLATFORM.root_ca)

    verifier.verify(QUOTE, collateral, BEGINS)
    verifier.verify(QUOTE, collateral, last)
    with pytest.raises(QuoteRefusedError) as late:
        verifier.verify(QUOTE, collateral, last + timedelta(seconds=1))
    with pytest.raises(QuoteRefusedError) as early:
        verifier.verify(QUOTE, collateral, BEGINS - timedelta(seconds=1))

    assert (late.value.reason, early.value.reason) == ("expired", "not-yet-valid")
