"""Admission by a package: each status with each kind of list, each field, in a fixed order."""

from datetime import UTC, datetime
from itertools import product

import msgspec
import pytest

from keyhouse.attestation import TcbStatus, Tee, Verdict
from keyhouse.attestation.appraisal import PackageRefusedError, Rule, admit, mismatches
from keyhouse.attestation.quote.binding import quote_binding, report_data
from keyhouse.attestation.quote.report import Freshness
from keyhouse.wire.package import Package

BINDING = quote_binding(b"a client certificate")
TIME = datetime(2026, 1, 1, tzinfo=UTC)
ADVISORIES = ("INTEL-SA-00289", "INTEL-SA-00615")

ENCLAVE = Verdict(
    tee=Tee.SGX,
    mrenclave=b"\xab" * 32,
    mrsigner=b"\xcd" * 32,
    isvprodid=7,
    isvsvn=3,
    debug=False,
    report_data=report_data(BINDING),
    tcb_status=TcbStatus.UP_TO_DATE,
    advisories=ADVISORIES,
    tcb_date=TIME,
    fmspc=bytes(6),
    ppid=bytes(16),
    freshness=Freshness(1, 1, 1, TIME, TIME),
)
UNIQUE = Package(unique_id="AB" * 32)
TRIPLE = Package(signer_id="cd" * 32, product_id=7, security_version=3)

S = TcbStatus
LISTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "up to date": (S.UP_TO_DATE,),
    "hardening": (S.SW_HARDENING_NEEDED,),
    "out of date": (S.OUT_OF_DATE,),
    "revoked": (S.REVOKED,),
    "everything": tuple(S),
    "another case": tuple(status.lower() for status in S),
}
ACCEPTED: dict[str, set[TcbStatus]] = {
    "none": {S.UP_TO_DATE, S.SW_HARDENING_NEEDED},
    "up to date": {S.UP_TO_DATE},
    "hardening": {S.UP_TO_DATE, S.SW_HARDENING_NEEDED},
    "out of date": {S.UP_TO_DATE, S.OUT_OF_DATE},
    "revoked": {S.UP_TO_DATE},
    "everything": set(S) - {S.REVOKED},
    "another case": {S.UP_TO_DATE},
}


def failed(verdict: Verdict, rules: Package, binding: bytes = BINDING) -> str | None:
    """Return the rule that refuses ``verdict``, or None for an admission."""
    try:
        admit(verdict, rules, binding=binding)
    except PackageRefusedError as refused:
        return refused.rule
    return None


def bent(rules: Package, **changes: object) -> Package:
    return msgspec.structs.replace(rules, **changes)


def of(**changes: object) -> Verdict:
    return msgspec.structs.replace(ENCLAVE, **changes)


@pytest.mark.parametrize(("status", "name"), list(product(S, LISTS)))
def test_each_status_is_accepted_by_exactly_the_lists_that_say_so(
    status: TcbStatus, name: str
) -> None:
    rules = bent(UNIQUE, accepted_tcb_statuses=LISTS[name])

    accepted = status in ACCEPTED[name]

    assert failed(of(tcb_status=status), rules) is (None if accepted else Rule.TCB_STATUS)


@pytest.mark.parametrize("status", S)
@pytest.mark.parametrize(
    ("advisories", "enough"),
    [
        ((), True),
        (ADVISORIES, True),
        (("intel-sa-00615", "Intel-SA-00289", "INTEL-SA-1"), True),
        (("INTEL-SA-00615",), False),
        (("INTEL-SA-1",), False),
    ],
)
def test_advisories_count_for_hardening_alone(
    status: TcbStatus, advisories: tuple[str, ...], *, enough: bool
) -> None:
    everything = tuple(set(S) - {S.REVOKED})
    rules = bent(UNIQUE, accepted_tcb_statuses=everything, accepted_advisories=advisories)

    found = failed(of(tcb_status=status), rules)

    if status is S.REVOKED:
        assert found is Rule.TCB_STATUS
    else:
        matters = status is S.SW_HARDENING_NEEDED and not enough
        assert found is (Rule.ADVISORIES if matters else None)


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        (UNIQUE, None),
        (TRIPLE, None),
        (bent(UNIQUE, unique_id="ab" * 31 + "ac"), Rule.UNIQUE_ID),
        (bent(TRIPLE, signer_id="cd" * 31 + "ce"), Rule.SIGNER_ID),
        (bent(TRIPLE, product_id=8), Rule.PRODUCT_ID),
        (bent(TRIPLE, product_id=0), Rule.PRODUCT_ID),
        (bent(TRIPLE, security_version=2), None),
        (bent(TRIPLE, security_version=0), None),
        (bent(TRIPLE, security_version=4), Rule.SECURITY_VERSION),
        (bent(TRIPLE, security_version=2**64 - 1), Rule.SECURITY_VERSION),
        (Package(), Rule.IDENTITY),
        (bent(TRIPLE, product_id=None), Rule.IDENTITY),
        (bent(TRIPLE, security_version=None), Rule.IDENTITY),
        (bent(TRIPLE, signer_id=""), Rule.IDENTITY),
        (bent(UNIQUE, debug=True), Rule.DEBUG),
        (Package(debug=True), Rule.DEBUG),
    ],
)
def test_each_field_that_is_given_has_to_match(rules: Package, rule: str | None) -> None:
    assert failed(ENCLAVE, rules) == rule


def test_a_product_id_of_zero_is_a_value() -> None:
    assert failed(of(isvprodid=0), bent(TRIPLE, product_id=0)) is None


def test_a_debug_enclave_matches_no_production_package() -> None:
    for rules in (UNIQUE, TRIPLE, bent(UNIQUE, unique_id="00" * 32)):
        assert failed(of(debug=True), rules) is Rule.DEBUG


def test_a_quote_for_another_certificate_is_refused_before_anything_of_the_enclave() -> None:
    assert failed(ENCLAVE, UNIQUE, quote_binding(b"another certificate")) is Rule.REPORT_DATA
    assert failed(ENCLAVE, UNIQUE, b"") is Rule.REPORT_DATA
    assert failed(of(debug=True), Package(), bytes(32)) is Rule.REPORT_DATA


def test_tdx_quotes_match_no_package_of_an_enclave() -> None:
    domain = of(tee=Tee.TDX, mrenclave=b"", mrsigner=b"", isvprodid=0, isvsvn=0)

    for rules in (UNIQUE, TRIPLE, Package(), Package(debug=True)):
        assert failed(domain, rules) is Rule.TEE


def test_all_rules_fail_in_the_order_in_which_they_are_asked() -> None:
    rules = Package(
        unique_id="00" * 32,
        signer_id="00" * 32,
        product_id=1,
        security_version=9,
        accepted_advisories=("INTEL-SA-1",),
    )
    broken = of(debug=True, tcb_status=S.SW_HARDENING_NEEDED)
    order = [Rule.ADVISORIES, Rule.DEBUG, Rule.UNIQUE_ID, Rule.SIGNER_ID]
    order += [Rule.PRODUCT_ID, Rule.SECURITY_VERSION]

    assert [each.rule for each in mismatches(broken, rules)] == order
    assert failed(broken, rules) is order[0]
    assert [each.rule for each in mismatches(of(tcb_status=S.OUT_OF_DATE), UNIQUE)] == [
        Rule.TCB_STATUS
    ]
    assert mismatches(ENCLAVE, UNIQUE) == ()


def test_messages_name_the_rule_and_the_value() -> None:
    with pytest.raises(PackageRefusedError) as caught:
        admit(ENCLAVE, bent(TRIPLE, security_version=4), binding=BINDING)
    assert str(caught.value).startswith("SecurityVersion: the enclave has 3, must have 4 or higher")
    with pytest.raises(PackageRefusedError, match=r"AcceptedTCBStatuses: .*OutOfDate"):
        admit(of(tcb_status=S.OUT_OF_DATE), UNIQUE, binding=BINDING)


def test_a_tdx_domain_is_told_that_and_nothing_of_an_enclave() -> None:
    domain = of(tee=Tee.TDX, mrenclave=bytes(32), mrsigner=bytes(32), debug=True)
    assert [each.rule for each in mismatches(domain, UNIQUE)] == [Rule.TEE]


@pytest.mark.parametrize("debug", [True, False])
def test_debug_is_told_apart_from_its_opposite(*, debug: bool) -> None:
    """The error names the part to change: the demanding package, or the debug enclave."""
    [found] = mismatches(of(debug=not debug), Package(debug=debug, unique_id="ab" * 32))
    assert found.rule is Rule.DEBUG
    assert ("package" in found.problem) is debug


def test_a_debug_package_needs_no_name_to_admit_nobody() -> None:
    assert [each.rule for each in mismatches(ENCLAVE, Package(debug=True))] == [Rule.DEBUG]
