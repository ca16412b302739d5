"""The identity that a client expects; no different identity is accepted."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.attestation import (
    ConfigurationRefusedError,
    ExpectedIdentity,
    IdentityRefusedError,
    TcbStatus,
    Tee,
    Verdict,
    quote_binding,
    read_expected_identity,
    report_data,
)
from keyhouse.attestation.coordinator_appraisal import accept_tcb, appraise
from keyhouse.attestation.quote.report import Freshness
from keyhouse_simulation.attestation_file import write_expected_identity

ENCLAVE, SIGNER = b"\x11" * 32, b"\x22" * 32
BINDING = quote_binding(b"root", b"nonce")
THEN = datetime(2026, 1, 1, tzinfo=UTC)
FILE = {
    "UniqueID": ENCLAVE.hex(),
    "SignerID": SIGNER.hex().upper(),
    "SecurityVersion": 3,
    "ProductID": 7,
    "Debug": False,
    "AcceptedTCBStatuses": ["UpToDate", "SWHardeningNeeded"],
    "AcceptedAdvisories": ["INTEL-SA-00615"],
    "Nonce": "AAEC",
}
EXPECTED = ExpectedIdentity(
    unique_id=ENCLAVE,
    signer_id=SIGNER,
    security_version=3,
    product_id=7,
    accepted_tcb_statuses=(TcbStatus.UP_TO_DATE, TcbStatus.SW_HARDENING_NEEDED),
    accepted_advisories=("INTEL-SA-00615",),
    nonce=b"\0\1\2",
)
VERDICT = Verdict(
    tee=Tee.SGX,
    mrenclave=ENCLAVE,
    mrsigner=SIGNER,
    isvprodid=7,
    isvsvn=3,
    debug=False,
    report_data=report_data(BINDING),
    tcb_status=TcbStatus.UP_TO_DATE,
    advisories=(),
    tcb_date=THEN,
    fmspc=bytes(6),
    ppid=bytes(16),
    freshness=Freshness(1, 1, 1, THEN, THEN),
)


def read(**changes: object) -> ExpectedIdentity:
    return read_expected_identity(json.dumps({**FILE, **changes}).encode())


def test_the_whole_file_is_read() -> None:
    assert read() == EXPECTED


def test_names_match_in_any_case_and_null_is_not_given() -> None:
    file = {name.lower(): value for name, value in FILE.items()}
    assert read_expected_identity(json.dumps(file).encode()) == EXPECTED
    assert read(Nonce=None).nonce == b""


@pytest.mark.parametrize("field", ["accepted_tcb_statuses", "accepted_advisories"])
def test_a_text_is_not_a_list_of_what_is_accepted(field: str) -> None:
    # "OutOfDate" is a substring of this text, so `in` would find it.
    text: Any = "OutOfDateConfigurationNeeded"

    with pytest.raises(TypeError, match=field):
        ExpectedIdentity(unique_id=ENCLAVE, **{field: text})


def test_what_was_written_is_read_again() -> None:
    assert read_expected_identity(write_expected_identity(EXPECTED)) == EXPECTED
    small = ExpectedIdentity(unique_id=ENCLAVE)
    assert json.loads(write_expected_identity(small)) == {"UniqueID": ENCLAVE.hex()}
    assert read_expected_identity(write_expected_identity(small)) == small


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"InsecureSkipVerify": True}, "InsecureSkipVerify"),
        ({"UniqeID": "00"}, "UniqeID"),
        ({"uniqueid": ENCLAVE.hex()}, "more than once"),
        ({"UniqueID": "zz" * 32}, "UniqueID: .*hex"),
        ({"UniqueID": "0x" + "00" * 31}, "UniqueID: .*hex"),
        ({"UniqueID": "00" * 31}, "UniqueID .*31 bytes"),
        ({"SignerID": "00" * 33}, "SignerID .*33 bytes"),
        ({"ProductID": 65536}, "ProductID"),
        ({"ProductID": -1}, "ProductID"),
        ({"SecurityVersion": 1.5}, "SecurityVersion"),
        ({"SecurityVersion": "3"}, "SecurityVersion"),
        ({"AcceptedTCBStatuses": ["uptodate"]}, "did you mean UpToDate?"),
        ({"AcceptedTCBStatuses": "UpToDate"}, "AcceptedTCBStatuses"),
        ({"Nonce": "AAE"}, "Nonce"),
        ({"Debug": "false"}, "Debug"),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_name(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationRefusedError, match=problem):
        read(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"SignerID": ""},
        {"ProductID": 0},
        {"SecurityVersion": 0},
        {"SignerID": "", "ProductID": 0, "SecurityVersion": 0},
    ],
)
def test_without_unique_id_signer_product_and_version_are_all_needed(
    changes: dict[str, object],
) -> None:
    if not changes:
        assert read(UniqueID="").unique_id == b""
        return
    with pytest.raises(ConfigurationRefusedError, match="does not identify the coordinator"):
        read(UniqueID="", **changes)


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationRefusedError):
        read_expected_identity(data)


def test_the_expected_enclave_passes() -> None:
    appraise(VERDICT, EXPECTED, binding=BINDING)
    newer = msgspec.structs.replace(VERDICT, isvsvn=4)
    appraise(newer, EXPECTED, binding=BINDING)


# In the order of the checks: each verdict also fails all later checks.
IN_ORDER: list[tuple[dict[str, object], str]] = [
    ({"tcb_status": TcbStatus.OUT_OF_DATE}, "OutOfDate"),
    (
        {"tcb_status": TcbStatus.SW_HARDENING_NEEDED, "advisories": ("INTEL-SA-00001",)},
        "INTEL-SA-00001",
    ),
    ({"report_data": bytes(64)}, "another certificate or nonce"),
    ({"tee": Tee.TDX}, "TDX"),
    ({"debug": True}, "Debug"),
    ({"mrenclave": bytes(32)}, "UniqueID"),
    ({"mrsigner": bytes(32)}, "SignerID"),
    ({"isvprodid": 8}, "ProductID"),
    ({"isvsvn": 2}, "SecurityVersion"),
]


@pytest.mark.parametrize("first", range(len(IN_ORDER)), ids=[name for _, name in IN_ORDER])
def test_the_first_mismatch_in_the_order_of_checks_is_named(first: int) -> None:
    changes: dict[str, object] = {}
    for later, _ in reversed(IN_ORDER[first:]):
        changes.update(later)
    with pytest.raises(IdentityRefusedError, match=IN_ORDER[first][1]):
        appraise(msgspec.structs.replace(VERDICT, **changes), EXPECTED, binding=BINDING)
    alone = msgspec.structs.replace(VERDICT, **IN_ORDER[first][0])
    with pytest.raises(IdentityRefusedError, match=IN_ORDER[first][1]):
        appraise(alone, EXPECTED, binding=BINDING)


def accepts(
    status: TcbStatus,
    advisories: tuple[str, ...] = (),
    *,
    statuses: tuple[TcbStatus, ...] = (),
    listed: tuple[str, ...] = (),
) -> bool:
    try:
        accept_tcb(status, advisories, accepted_statuses=statuses, accepted_advisories=listed)
    except IdentityRefusedError:
        return False
    return True


@pytest.mark.parametrize("status", TcbStatus)
def test_without_a_list_two_statuses_are_accepted(status: TcbStatus) -> None:
    default = {TcbStatus.UP_TO_DATE, TcbStatus.SW_HARDENING_NEEDED}
    assert accepts(status) is (status in default)


@pytest.mark.parametrize("status", TcbStatus)
def test_listed_statuses_are_accepted_but_revoked_never_is(status: TcbStatus) -> None:
    assert accepts(status, statuses=(status,)) is (status is not TcbStatus.REVOKED)
    assert accepts(TcbStatus.UP_TO_DATE, statuses=(status,))
    assert accepts(TcbStatus.SW_HARDENING_NEEDED, statuses=(status,)) is (
        status is TcbStatus.SW_HARDENING_NEEDED
    )


def test_advisories_count_for_software_hardening_alone_in_any_case_of_letters() -> None:
    hardening, both = TcbStatus.SW_HARDENING_NEEDED, TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED
    found = ("INTEL-SA-00615", "INTEL-SA-00657")
    assert accepts(hardening, found)
    assert accepts(hardening, found, listed=("intel-sa-00615", "INTEL-sa-00657"))
    assert not accepts(hardening, found, listed=("INTEL-SA-00615",))
    assert accepts(hardening, (), listed=("INTEL-SA-00615",))
    assert accepts(both, found, statuses=(both,), listed=("INTEL-SA-00001",))
