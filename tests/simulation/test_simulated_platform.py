"""Simulated quotes pass the production verifier; bent in any one place they do not."""

import json
import ssl
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import (
    INTEL_SGX_ROOT,
    Collateral,
    Measurements,
    Platform,
    QuoteProblem,
    QuoteRefusedError,
    SealPolicy,
    TcbStatus,
    Verdict,
    Verifier,
    quote_binding,
    report_data,
)
from keyhouse.attestation.coordinator_appraisal import appraise
from keyhouse_simulation import (
    COORDINATOR,
    Lists,
    Machine,
    Pck,
    QeIdentity,
    QuotedEnclave,
    QuoteParameters,
    QuotingEnclave,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MACHINE = make_machine(NOW)
BINDING = quote_binding(b"root", b"nonce")
OTHER_CA = make_machine(NOW)


def at_now() -> datetime:
    return NOW


def platform(
    parameters: QuoteParameters | None = None, machine: Machine = MACHINE
) -> SimulatedPlatform:
    return SimulatedPlatform(machine, parameters, now=at_now)


GOOD = platform()
QUOTE = GOOD.quote(report_data(BINDING))


def verify(bent: SimulatedPlatform, at: datetime = NOW) -> Verdict:
    return Verifier(bent.root_ca).verify(bent.quote(report_data(BINDING)), bent.collateral, at)


def reason(quote: bytes, collateral: Collateral) -> QuoteProblem | None:
    try:
        Verifier(GOOD.root_ca).verify(quote, collateral, NOW)
    except QuoteRefusedError as refusal:
        return refusal.reason
    return None


def test_it_is_a_platform_and_its_quotes_verify() -> None:
    simulated: Platform = GOOD
    assert simulated.kind == "simulation"
    verdict = verify(GOOD)
    assert verdict.tcb_status is TcbStatus.UP_TO_DATE
    assert (
        Measurements(
            unique_id=verdict.mrenclave,
            signer_id=verdict.mrsigner,
            product_id=verdict.isvprodid,
            security_version=verdict.isvsvn,
        )
        == simulated.measurements
    )
    appraise(verdict, GOOD.expected_identity, binding=BINDING)


def test_its_measurements_are_plainly_artificial() -> None:
    assert b"SIMULATED" in COORDINATOR.unique_id
    assert b"SIMULATED" in COORDINATOR.signer_id


def test_intels_root_and_another_machines_root_refuse_it() -> None:
    for root in (INTEL_SGX_ROOT, platform(machine=OTHER_CA).root_ca):
        with pytest.raises(QuoteRefusedError, match="pinned root"):
            Verifier(root).verify(QUOTE, GOOD.collateral, NOW)


def test_report_data_of_another_length_are_refused() -> None:
    for length in (0, 32, 63, 65):
        with pytest.raises(ValueError, match="64"):
            GOOD.quote(bytes(length))


def test_a_workload_on_the_machine_has_its_own_measurements() -> None:
    who = Measurements(
        unique_id=b"\x01" * 32, signer_id=b"\x02" * 32, product_id=3, security_version=4
    )
    quote = GOOD.workload_quote(who, bytes(64))
    verdict = Verifier(GOOD.root_ca).verify(quote, GOOD.collateral, NOW)
    assert (verdict.mrenclave, verdict.isvprodid, verdict.isvsvn) == (who.unique_id, 3, 4)


def test_statuses_and_advisories_come_out_as_they_were_put_in() -> None:
    for status in TcbStatus:
        info = TcbInfo(status=status, advisories=("INTEL-SA-00334",))
        bent = platform(QuoteParameters(tcb_info=info))
        if status is TcbStatus.REVOKED:
            with pytest.raises(QuoteRefusedError) as caught:
                verify(bent)
            assert caught.value.reason is QuoteProblem.REVOKED
        else:
            verdict = verify(bent)
            assert (verdict.tcb_status, verdict.advisories) == (status, ("INTEL-SA-00334",))


# What the vendor or machine could say under valid signatures, and why it is refused.
DAY = timedelta(days=1)
TRUE_SIGNATURES: dict[str, tuple[QuoteParameters, QuoteProblem]] = {
    "debug": (QuoteParameters(enclave=QuotedEnclave(debug=True)), QuoteProblem.DEBUG),
    "TCB info for TDX": (QuoteParameters(tcb_info=TcbInfo(id="TDX")), QuoteProblem.WRONG_PLATFORM),
    "TCB info of version 2": (
        QuoteParameters(tcb_info=TcbInfo(version=2)),
        QuoteProblem.COLLATERAL,
    ),
    "TCB type": (QuoteParameters(tcb_info=TcbInfo(tcb_type=1)), QuoteProblem.COLLATERAL),
    "FMSPC": (QuoteParameters(tcb_info=TcbInfo(fmspc=bytes(6))), QuoteProblem.WRONG_PLATFORM),
    "pceId": (QuoteParameters(tcb_info=TcbInfo(pce_id=b"\0\1")), QuoteProblem.WRONG_PLATFORM),
    "TCB evaluation number": (
        QuoteParameters(tcb_info=TcbInfo(evaluation_number=2)),
        QuoteProblem.COLLATERAL,
    ),
    "QE evaluation number": (
        QuoteParameters(qe_identity=QeIdentity(evaluation_number=0)),
        QuoteProblem.COLLATERAL,
    ),
    "CPUSVN too low": (
        QuoteParameters(tcb_info=TcbInfo(cpu_svn=bytes([3]) * 16)),
        QuoteProblem.TCB_LEVEL,
    ),
    "PCESVN too low": (QuoteParameters(tcb_info=TcbInfo(pce_svn=12)), QuoteProblem.TCB_LEVEL),
    "TCB info expired": (
        QuoteParameters(tcb_info=TcbInfo(issued_ago=9 * DAY, valid_for=8 * DAY)),
        QuoteProblem.EXPIRED,
    ),
    "TCB info from the future": (
        QuoteParameters(tcb_info=TcbInfo(issued_ago=-DAY)),
        QuoteProblem.NOT_YET_VALID,
    ),
    "QE identity expired": (
        QuoteParameters(qe_identity=QeIdentity(issued_ago=9 * DAY, valid_for=8 * DAY)),
        QuoteProblem.EXPIRED,
    ),
    "QE identity from the future": (
        QuoteParameters(qe_identity=QeIdentity(issued_ago=-DAY)),
        QuoteProblem.NOT_YET_VALID,
    ),
    "lists expired": (
        QuoteParameters(lists=Lists(issued_ago=9 * DAY, valid_for=8 * DAY)),
        QuoteProblem.EXPIRED,
    ),
    "lists from the future": (
        QuoteParameters(lists=Lists(issued_ago=-DAY)),
        QuoteProblem.NOT_YET_VALID,
    ),
    "PCK revoked": (QuoteParameters(lists=Lists(revokes_pck=True)), QuoteProblem.REVOKED),
    "PCK CA revoked": (QuoteParameters(lists=Lists(revokes_pck_ca=True)), QuoteProblem.REVOKED),
    "TCB signer revoked": (
        QuoteParameters(lists=Lists(revokes_tcb_signer=True)),
        QuoteProblem.REVOKED,
    ),
    "TD QE identity": (
        QuoteParameters(qe_identity=QeIdentity(id="TD_QE")),
        QuoteProblem.COLLATERAL,
    ),
    "QE identity of version 1": (
        QuoteParameters(qe_identity=QeIdentity(version=1)),
        QuoteProblem.COLLATERAL,
    ),
    "QE revoked": (
        QuoteParameters(qe_identity=QeIdentity(status=TcbStatus.REVOKED)),
        QuoteProblem.REVOKED,
    ),
    "QE identity's signer": (
        QuoteParameters(qe_identity=QeIdentity(signer=bytes(32))),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE identity's product": (
        QuoteParameters(qe_identity=QeIdentity(product_id=2)),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE identity's MISCSELECT": (
        QuoteParameters(qe_identity=QeIdentity(misc_select=b"\1\0\0\0")),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE identity's attributes": (
        QuoteParameters(qe_identity=QeIdentity(attributes=b"\x13".ljust(16, b"\0"))),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE too old": (
        QuoteParameters(qe_identity=QeIdentity(security_version=9)),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE vendor": (
        QuoteParameters(quoting_enclave=QuotingEnclave(vendor=bytes(16))),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE's own signer": (
        QuoteParameters(quoting_enclave=QuotingEnclave(signer=bytes(32))),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE's own product": (
        QuoteParameters(quoting_enclave=QuotingEnclave(product_id=2)),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE's own MISCSELECT": (
        QuoteParameters(quoting_enclave=QuotingEnclave(misc_select=1)),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
    "QE in debug": (
        QuoteParameters(quoting_enclave=QuotingEnclave(attributes=b"\x17".ljust(16, b"\0"))),
        QuoteProblem.QUOTING_ENCLAVE,
    ),
}


@pytest.mark.parametrize("case", TRUE_SIGNATURES)
def test_what_is_wrong_under_true_signatures_is_refused_for_its_reason(case: str) -> None:
    parameters, why = TRUE_SIGNATURES[case]
    with pytest.raises(QuoteRefusedError) as caught:
        verify(platform(parameters))
    assert caught.value.reason is why, caught.value.message


@pytest.mark.parametrize(
    "pck",
    [
        Pck(fmspc=bytes(6)),
        Pck(pce_id=b"\0\1"),
        Pck(cpu_svn=bytes([1]) * 16),
        Pck(pce_svn=10),
        Pck(cpu_svn=bytes([2]) * 15 + b"\1"),
    ],
    ids=["FMSPC", "pceId", "CPUSVN", "PCESVN", "one component"],
)
def test_a_machine_that_the_collateral_does_not_describe_is_refused(pck: Pck) -> None:
    with pytest.raises(QuoteRefusedError) as caught:
        verify(platform(machine=make_machine(NOW, pck)))
    assert caught.value.reason in {QuoteProblem.WRONG_PLATFORM, QuoteProblem.TCB_LEVEL}


# Every field of a quote: where it begins and how long it is.
SIGNED = 48 + 384
CERTIFIED = SIGNED + 4 + 64 + 64
AUTHENTICATED = CERTIFIED + 384 + 64
REPORT = {
    "CPUSVN": (0, 16),
    "MISCSELECT": (16, 4),
    "reserved 1": (20, 28),
    "attributes": (48, 16),
    "MRENCLAVE": (64, 32),
    "reserved 2": (96, 32),
    "MRSIGNER": (128, 32),
    "reserved 3": (160, 96),
    "ISVPRODID": (256, 2),
    "ISVSVN": (258, 2),
    "reserved 4": (260, 60),
    "report data": (320, 64),
}
FIELDS = {
    "version": (0, 2),
    "key type": (2, 2),
    "TEE type": (4, 4),
    "QE SVN": (8, 2),
    "PCE SVN": (10, 2),
    "vendor": (12, 16),
    "user data": (28, 20),
    **{name: (48 + at, size) for name, (at, size) in REPORT.items()},
    "signature length": (SIGNED, 4),
    "signature": (SIGNED + 4, 64),
    "attestation key": (SIGNED + 4 + 64, 64),
    **{f"QE {name}": (CERTIFIED + at, size) for name, (at, size) in REPORT.items()},
    "QE signature": (CERTIFIED + 384, 64),
    "authentication length": (AUTHENTICATED, 2),
    "authentication data": (AUTHENTICATED + 2, 32),
    "certification type": (AUTHENTICATED + 34, 2),
    "chain length": (AUTHENTICATED + 36, 4),
    "chain": (AUTHENTICATED + 40, len(QUOTE) - AUTHENTICATED - 40),
}


def test_the_table_of_fields_covers_every_byte_of_a_quote() -> None:
    covered = 0
    for at, size in FIELDS.values():
        assert at == covered
        covered += size
    assert covered == len(QUOTE)


@pytest.mark.parametrize("name", FIELDS)
def test_each_changed_field_of_a_quote_is_refused(name: str) -> None:
    at, size = FIELDS[name]
    for place in {at, at + size // 2, at + size - 1}:
        for bit in (0, 6):
            bent = bytearray(QUOTE)
            bent[place] ^= 1 << bit
            assert reason(bytes(bent), GOOD.collateral) is not None


# Other quotes that verify: of another enclave on the machine, of another quoting enclave on it, and
# of another machine. None is over the same report: its signature would be a true one.
_WHO = Measurements(
    unique_id=b"\x01" * 32, signer_id=b"\x02" * 32, product_id=3, security_version=4
)
_QE = QuotingEnclave(unique_id=b"\x03" * 32, authentication_data=bytes(32))
OTHERS = (
    GOOD.workload_quote(_WHO, b"\x04" * 64),
    platform(QuoteParameters(quoting_enclave=_QE)).quote(b"\x05" * 64),
    platform(machine=OTHER_CA).quote(b"\x06" * 64),
)


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_swapped_with_that_of_another_quote_is_refused(name: str) -> None:
    at, size = FIELDS[name]
    for other in OTHERS:
        theirs = other[at : at + size] if name != "chain" else other[at:]
        if theirs != QUOTE[at : at + size]:
            assert reason(QUOTE[:at] + theirs + QUOTE[at + size :], GOOD.collateral) is not None


def test_the_swapped_fields_cover_all_that_differs_between_quotes() -> None:
    """Else the test above would compare a quote with itself."""
    found = {
        name
        for name, (at, size) in FIELDS.items()
        if any(other[at : at + size] != QUOTE[at : at + size] for other in OTHERS)
    }
    assert found >= {"MRENCLAVE", "MRSIGNER", "ISVPRODID", "ISVSVN", "report data", "signature"}
    assert found >= {
        "QE MRENCLAVE",
        "QE report data",
        "QE signature",
        "authentication data",
        "chain",
    }


@pytest.mark.parametrize("name", FIELDS)
def test_a_quote_that_lacks_a_field_or_ends_in_it_is_refused(name: str) -> None:
    at, size = FIELDS[name]
    for bent in (QUOTE[:at], QUOTE[: at + size // 2], QUOTE[:at] + QUOTE[at + size :]):
        assert reason(bent, GOOD.collateral) is not None
        # The lengths in front of what was cut agree with what is left.
        if at > SIGNED + 4:
            rest = bent[SIGNED + 4 :]
            agreed = QUOTE[:SIGNED] + struct.pack("<I", len(rest)) + rest
            assert reason(agreed, GOOD.collateral) is not None


@pytest.mark.parametrize("name", Collateral.__struct_fields__)
def test_collateral_that_lacks_a_part_or_the_end_of_it_is_refused(name: str) -> None:
    value = getattr(GOOD.collateral, name)
    for left in (0, 1, len(value) // 3, len(value) // 2, len(value) - 2):
        bent = msgspec.structs.replace(GOOD.collateral, **{name: value[:left]})
        assert reason(QUOTE, bent) is not None, left


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the plain values of a JSON document stand."""
    if isinstance(value, dict):
        return [p for key in value for p in paths(value[key], (*path, key))]
    if isinstance(value, list) and value:
        return [p for index, one in enumerate(value) for p in paths(one, (*path, index))]
    return [path]


def bend(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("2026", "2025") if "2026" in value else value[:-1] + "7"
    return [*value, "INTEL-SA-00001"] if isinstance(value, list) else value + 1


def with_bent(text: str, path: tuple[Any, ...]) -> str:
    document = json.loads(text)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = bend(inner[path[-1]])
    return json.dumps(document, separators=(",", ":"))


@pytest.mark.parametrize("name", ["tcb_info", "qe_identity"])
def test_each_changed_value_of_a_signed_document_is_refused(name: str) -> None:
    text = getattr(GOOD.collateral, name)
    found = paths(json.loads(text))
    assert len(found) > 10
    for path in found:
        bent = msgspec.structs.replace(GOOD.collateral, **{name: with_bent(text, path)})
        assert reason(QUOTE, bent) is not None, path


@pytest.mark.parametrize("name", ["root_ca_crl", "pck_crl"])
def test_each_changed_byte_of_a_revocation_list_is_refused(name: str) -> None:
    data = getattr(GOOD.collateral, name)
    for at in range(len(data)):
        bent = bytearray(data)
        bent[at] ^= 1 << at % 8
        collateral = msgspec.structs.replace(GOOD.collateral, **{name: bytes(bent)})
        assert reason(QUOTE, collateral) is not None, at


def chain_with(pem: str, which: int, at: int) -> str:
    chain = [c.public_bytes(Encoding.DER) for c in x509.load_pem_x509_certificates(pem.encode())]
    bent = bytearray(chain[which])
    bent[at % len(bent)] ^= 1 << at % 8
    chain[which] = bytes(bent)
    return "".join(map(ssl.DER_cert_to_PEM_cert, chain))


CHAINS = ["pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain"]


@pytest.mark.parametrize("name", CHAINS)
def test_each_changed_byte_of_a_collateral_certificate_is_refused(name: str) -> None:
    pem = getattr(GOOD.collateral, name)
    for which in range(2):
        for at in range(0, 560, 3):
            bent = msgspec.structs.replace(GOOD.collateral, **{name: chain_with(pem, which, at)})
            assert reason(QUOTE, bent) is not None, (which, at)


def test_each_changed_byte_of_a_certificate_of_the_quote_is_refused() -> None:
    start = AUTHENTICATED + 40
    pem = QUOTE[start:].decode()
    for which in range(3):
        for at in range(0, 1000, 5):
            chain = chain_with(pem, which, at).encode()
            data = QUOTE[SIGNED + 4 : start - 4] + struct.pack("<I", len(chain)) + chain
            bent = QUOTE[:SIGNED] + struct.pack("<I", len(data)) + data
            assert reason(bent, GOOD.collateral) is not None, (which, at)


# Not tcb_info and qe_identity: both vendors say the same, only their signatures differ.
SWAPPED = [n for n in Collateral.__struct_fields__ if n not in {"tcb_info", "qe_identity"}]


@pytest.mark.parametrize("name", SWAPPED)
def test_collateral_of_another_vendor_in_any_field_is_refused(name: str) -> None:
    theirs = platform(machine=OTHER_CA).collateral
    bent = msgspec.structs.replace(GOOD.collateral, **{name: getattr(theirs, name)})
    assert reason(QUOTE, bent) is not None


def test_sealing_keys_differ_by_policy_machine_and_identity() -> None:
    other = Measurements(
        unique_id=bytes(32),
        signer_id=COORDINATOR.signer_id,
        product_id=COORDINATOR.product_id,
        security_version=9,
    )
    updated = platform(QuoteParameters(enclave=QuotedEnclave(measurements=other)))
    unique, product = SealPolicy.UNIQUE_KEY, SealPolicy.PRODUCT_KEY
    assert len(GOOD.sealing_key(unique)) == 32
    assert GOOD.sealing_key(unique) == platform().sealing_key(unique)
    assert GOOD.sealing_key(unique) != GOOD.sealing_key(product)
    assert GOOD.sealing_key(unique) != updated.sealing_key(unique)
    assert GOOD.sealing_key(product) == updated.sealing_key(product)
    assert GOOD.sealing_key(product) != platform(machine=OTHER_CA).sealing_key(product)
