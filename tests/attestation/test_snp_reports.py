"""Reports of SEV-SNP: real reports verify up to AMD's roots, changed reports do not."""

import hashlib
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.samples.snp_vms import snp_of

from keyhouse.attestation import (
    AMD_ROOTS,
    INTEL_SGX_ROOT,
    AmdCollateral,
    CollateralRefusedError,
    QuoteProblem,
    QuoteRefusedError,
    SnpTcb,
    Tee,
    Verdict,
    Verifier,
    read_amd_collateral,
    read_form,
)
from keyhouse.attestation.collateral.amd import read_amd_path
from keyhouse.attestation.kinds.snp.authority import find_authority, newest_list
from keyhouse.attestation.kinds.snp.form import SNP_REPORT, SnpCertificate, write_table
from keyhouse.attestation.kinds.snp.verify import require_endorsed
from keyhouse.attestation.vendor_roots import AMD_ROOTS_SHA256
from keyhouse_simulation import (
    KeyEndorsement,
    QuotedSnp,
    SimulatedPlatform,
    amd_vendor,
    make_machine,
)
from keyhouse_simulation.amd_certificates import issue_amd_authority, issue_amd_list
from keyhouse_simulation.snp import ROOT

VECTORS = Path(__file__).parent / "vectors"
AT = datetime(2025, 1, 1, tzinfo=UTC)
AUTHORITIES = read_amd_collateral([(VECTORS / "snp_authorities.pem").read_bytes()])
REPORT = (VECTORS / "snp_report").read_bytes()
VCEK = (VECTORS / "snp_vcek_milan.der").read_bytes()
QUOTE = REPORT + write_table({SnpCertificate.VCEK: VCEK})
DATA = b"r" * 64
LISTS = read_amd_collateral([(VECTORS / "snp_lists.pem").read_bytes()]).lists
LISTED = (VECTORS / "snp_quote_listed").read_bytes()
WHEN_LISTED = datetime(2022, 12, 1, tzinfo=UTC)
"""A time within the validity of ``LISTS`` and of the certificate in ``LISTED``."""
LATER = datetime(2025, 10, 1, tzinfo=UTC)
"""A time within the validity of the certificates of the remaining real quotes."""


def endorsed(
    quote: bytes, collateral: AmdCollateral = AUTHORITIES, at: datetime = AT
) -> QuoteProblem | None:
    """Return the reason to refuse a report under AMD's roots, or None; ignore revocation."""
    try:
        require_endorsed(read_form(quote), collateral, AMD_ROOTS, at)
    except QuoteRefusedError as refused:
        return refused.reason
    return None


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def test_amds_roots_are_those_that_amd_publishes() -> None:
    found = {name: hashlib.sha256(der).hexdigest() for name, der in AMD_ROOTS.items()}
    assert found == dict(AMD_ROOTS_SHA256)
    assert found["Milan"].startswith("69d063b45344d26a2e94e1f4210de49e")
    assert found["Genoa"].startswith("4c6598d19c18719c5dfd4a7d335f674e")
    assert found["Turin"].startswith("1f084161a44bb6d93778a904877d4819")


def test_the_recorded_report_is_signed_by_a_chip_of_amds() -> None:
    report, endorsement, authority = require_endorsed(read_form(QUOTE), AUTHORITIES, AMD_ROOTS, AT)
    assert (authority.product, endorsement.product) == ("Milan", "Milan-B0")
    assert report.measured.product == "Milan"
    assert report.measured.measurement.hex().startswith("7a1e5c266c0108dbc9bb94fa92695132")
    assert report.measured.reported_tcb == SnpTcb(3, 0, 8, 115)
    report.measured.require_sound()


def test_the_key_may_be_in_the_collateral_instead() -> None:
    assert endorsed(REPORT) is QuoteProblem.CHAIN
    other = (VECTORS / "snp_vcek_debug.der").read_bytes()
    for certificates in (
        (*AUTHORITIES.certificates, other, VCEK),
        (VCEK, other, *AUTHORITIES.certificates),
    ):
        whole = msgspec.structs.replace(AUTHORITIES, certificates=certificates)
        assert endorsed(REPORT, whole) is None
    without = msgspec.structs.replace(AUTHORITIES, certificates=(*AUTHORITIES.certificates, other))
    assert endorsed(REPORT, without) is QuoteProblem.CHAIN


def test_no_bit_of_the_report_can_be_another_one() -> None:
    accepted = []
    for at in range(len(REPORT)):
        try:
            if endorsed(flipped(QUOTE, at)) is None:
                accepted.append(at)
        except QuoteRefusedError:
            continue
    assert accepted == []


def test_no_bit_of_the_certificate_can_be_another_one() -> None:
    first = len(QUOTE) - len(VCEK)
    assert [at for at in range(first, len(QUOTE)) if endorsed(flipped(QUOTE, at)) is None] == []


@pytest.mark.parametrize("octets", [3, 4])
@pytest.mark.parametrize("kind", [SnpCertificate.VCEK, SnpCertificate.ASK])
def test_a_certificate_with_a_longer_length_than_der_allows_is_refused(
    kind: SnpCertificate, octets: int
) -> None:
    """No signature covers the outer length, so BER would permit several forms of a certificate."""
    certificates = {SnpCertificate.VCEK: VCEK, SnpCertificate.ASK: AUTHORITIES.certificates[0]}
    assert endorsed(REPORT + write_table(certificates), AmdCollateral()) is None
    content = certificates[kind][4:]
    long = b"\x30" + bytes([0x80 | octets]) + len(content).to_bytes(octets) + content
    quote = REPORT + write_table(certificates | {kind: long})
    assert endorsed(quote, AmdCollateral()) is QuoteProblem.CHAIN


def test_bytes_beside_a_report_that_are_not_an_authority_are_refused_whatever_they_are() -> None:
    """A parser may notice a missing name only when the name is read."""
    ask = AUTHORITIES.certificates[0]
    for at in range(400):
        for other in (ask[at] ^ 0x80, ask[at] ^ 0x1F):
            changed = ask[:at] + bytes([other]) + ask[at + 1 :]
            quote = REPORT + write_table({SnpCertificate.VCEK: VCEK, SnpCertificate.ASK: changed})
            assert endorsed(quote, AmdCollateral()) is QuoteProblem.CHAIN, at


def test_without_a_revocation_list_nothing_is_accepted() -> None:
    verifier = Verifier(INTEL_SGX_ROOT, AMD_ROOTS)
    with pytest.raises(QuoteRefusedError, match=r"revocation list .*Milan") as refused:
        verifier.verify(QUOTE, AUTHORITIES, AT)
    assert refused.value.reason is QuoteProblem.COLLATERAL


def test_a_real_vm_that_can_be_debugged_is_not_trusted() -> None:
    report = (VECTORS / "snp_report_debug").read_bytes()
    vcek = (VECTORS / "snp_vcek_debug.der").read_bytes()
    form = read_form(report + write_table({SnpCertificate.VCEK: vcek}))
    found, _, _ = require_endorsed(form, AUTHORITIES, AMD_ROOTS, AT)
    with pytest.raises(QuoteRefusedError, match="debugged"):
        found.measured.require_sound()


def test_a_report_of_another_chip_does_not_fit_the_certificate() -> None:
    other = (VECTORS / "snp_vcek_debug.der").read_bytes()
    quote = REPORT + write_table({SnpCertificate.VCEK: other})
    assert endorsed(quote) is QuoteProblem.WRONG_PLATFORM


class Real(NamedTuple):
    """The expected content of a real report."""

    version: int
    product: str
    signing_key: str
    vmpl: int
    reported: SnpTcb
    committed: SnpTcb
    chip: str
    provider: str = ""
    at: datetime = LATER


REAL = {
    "turin": Real(
        5, "Turin", "VCEK", 0, SnpTcb(1, 0, 2, 71, 0), SnpTcb(1, 0, 2, 71, 0), "3b42092f69c656d3"),
    "genoa": Real(
        5, "Genoa", "VCEK", 0, SnpTcb(10, 0, 25, 84), SnpTcb(10, 0, 25, 84), "d2421d976f95ce0b"),
    "azure": Real(
        3, "Genoa", "VCEK", 0, SnpTcb(10, 0, 23, 84), SnpTcb(10, 0, 23, 84), "0506ffba875e939c"),
    "vlek": Real(
        3, "Milan", "VLEK", 1, SnpTcb(4, 0, 24, 217), SnpTcb(4, 0, 24, 219), "00" * 8,
        "CN=cc-us-east-2.amazonaws.com"),
    "listed": Real(
        2, "Milan", "VCEK", 0, SnpTcb(2, 0, 6, 93), SnpTcb(2, 0, 6, 93), "5cb260b9c24d8a9c",
        at=WHEN_LISTED),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_reports_of_each_version_line_and_kind_of_key_verify(name: str) -> None:
    quote = (VECTORS / f"snp_quote_{name}").read_bytes()
    said = REAL[name]
    report, endorsement, authority = require_endorsed(
        read_form(quote), AUTHORITIES, AMD_ROOTS, said.at
    )
    found = report.measured
    found.require_sound()
    assert (report.version, found.product) == (said.version, said.product)
    assert (found.signing_key, found.vmpl) == (said.signing_key, said.vmpl)
    assert (found.reported_tcb, found.committed_tcb) == (said.reported, said.committed)
    assert found.chip_id.hex().startswith(said.chip)
    assert (authority.product, endorsement.tcb) == (said.product, said.reported)
    assert endorsement.provider == said.provider
    changed = range(0, len(quote), 5)
    assert [at for at in changed if endorsed(flipped(quote, at), at=said.at) is None] == []


def test_the_short_chip_of_turin_is_one_whole_chip() -> None:
    quote = (VECTORS / "snp_quote_turin").read_bytes()
    report, endorsement, _ = require_endorsed(read_form(quote), AUTHORITIES, AMD_ROOTS, LATER)
    assert report.measured.chip_id == endorsement.chip + bytes(56)
    assert len(endorsement.chip) == 8


def test_a_real_report_verifies_with_the_real_revocation_list_of_its_line() -> None:
    amd = msgspec.structs.replace(AUTHORITIES, lists=LISTS)
    verifier = Verifier(INTEL_SGX_ROOT, AMD_ROOTS)
    found = verifier.verify(LISTED, amd, WHEN_LISTED)
    assert snp_of(found).product == "Milan"
    assert found.freshness.root_crl_number == 3
    assert found.freshness.issued == datetime(2022, 5, 9, 17, 7, 45, tzinfo=UTC)
    assert found.freshness.expires == datetime(2023, 5, 9, 23, tzinfo=UTC)
    for at, reason in (
        (found.freshness.expires + timedelta(seconds=1), QuoteProblem.EXPIRED),
        (datetime(2022, 5, 9, tzinfo=UTC), QuoteProblem.NOT_YET_VALID),
    ):
        with pytest.raises(QuoteRefusedError) as refused:
            verifier.verify(LISTED, amd, at)
        assert refused.value.reason is reason
    (milan,) = [each for each in LISTS if b"ARK-Milan" in each]
    others = [each for each in LISTS if each != milan]
    for changed in [others] + [[flipped(milan, at)] for at in range(0, len(milan), 5)]:
        bent = msgspec.structs.replace(AUTHORITIES, lists=tuple(changed))
        with pytest.raises(QuoteRefusedError) as refused:
            verifier.verify(LISTED, bent, WHEN_LISTED)
        assert refused.value.reason is QuoteProblem.COLLATERAL


def test_the_authority_that_amd_revoked_is_refused() -> None:
    """Genoa's first authority is the only entry of a real list."""
    old = (VECTORS / "snp_authority_revoked.der").read_bytes()
    name = x509.load_der_x509_certificate(old).subject.public_bytes()
    revoked = find_authority(name, "VCEK", [old], AMD_ROOTS)
    revoked.require_at(WHEN_LISTED)
    with pytest.raises(QuoteRefusedError) as refused:
        newest_list(LISTS, revoked, WHEN_LISTED)
    assert refused.value.reason is QuoteProblem.REVOKED
    followed = find_authority(name, "VCEK", AUTHORITIES.certificates, AMD_ROOTS)
    assert newest_list(LISTS, followed, WHEN_LISTED).issuer == revoked.root.subject


# --- the form of quotes ---


def test_either_of_two_signatures_of_one_report_verifies() -> None:
    """In ECDSA, (r, n - s) also fits. In four of seven recorded reports, s is above n / 2."""
    order = 2**384 - 0x389CB27E0BC8D220A7E5F24DB74F58851313E695333AD68D
    at = 0x2A0 + 72
    s = int.from_bytes(REPORT[at : at + 72], "little")
    other = REPORT[:at] + (order - s).to_bytes(72, "little") + REPORT[at + 72 :]
    assert endorsed(other + QUOTE[SNP_REPORT:]) is None


@pytest.mark.parametrize(
    "table",
    [
        b"\0",
        bytes(24),
        write_table({SnpCertificate.VCEK: VCEK}) + b"\0",
        write_table({SnpCertificate.VCEK: VCEK})[:-1],
        struct.pack("<16sII", b"unknown kind....", 48, 1) + bytes(24) + b"c",
        struct.pack("<16sII", SnpCertificate.VCEK.value, 49, 1) + bytes(24) + b"\0c",
        struct.pack("<16sII", SnpCertificate.VCEK.value, 48, 0) + bytes(24),
        struct.pack("<16sII", SnpCertificate.VCEK.value, 72, 1) * 2 + bytes(24) + b"c",
        struct.pack("<16sII", SnpCertificate.VCEK.value, 48, 2**32 - 1) + bytes(24),
        struct.pack("<16sII", SnpCertificate.VCEK.value, 24, 1),
        struct.pack("<16sII", SnpCertificate.VCEK.value, 24, 1) * 18,
    ],
)
def test_certificates_beside_a_report_have_one_form(table: bytes) -> None:
    with pytest.raises(QuoteRefusedError) as refused:
        read_form(REPORT + table)
    assert refused.value.reason is QuoteProblem.MALFORMED


@pytest.mark.parametrize("length", [4, 48, SNP_REPORT - 1])
def test_a_report_that_ends_early_is_malformed(length: int) -> None:
    with pytest.raises(QuoteRefusedError, match=f" {length} bytes, .* 1184"):
        read_form(REPORT[:length])


# --- the simulated machine, bent ---

MACHINE = SimulatedPlatform(make_machine(AT))
PEM = (amd_vendor.ASK + amd_vendor.VLEK_AUTHORITY + amd_vendor.LIST).encode()
COLLATERAL = read_amd_collateral([PEM])
VERIFIER = Verifier(MACHINE.root_ca, MACHINE.amd_roots)
ALL = KeyEndorsement(chip=MACHINE.chip.chip_id)
VLEK = QuotedSnp(signer_info=0b100)
LENT = KeyEndorsement(name="SEV-VLEK", product="Genoa", provider="a provider")


def quote_of(vm: QuotedSnp, said: KeyEndorsement = ALL) -> bytes:
    kind = SnpCertificate.VLEK if vm.signer_info & 0b100 else SnpCertificate.VCEK
    table = write_table({kind: MACHINE.chip.endorsed(said)})
    return MACHINE.chip.report(vm, DATA) + table


def verified(quote: bytes, collateral: AmdCollateral = COLLATERAL, at: datetime = AT) -> Verdict:
    return VERIFIER.verify(quote, collateral, at)


@pytest.mark.parametrize(
    ("vm", "said"),
    [
        (QuotedSnp(), ALL),
        (QuotedSnp(version=2), ALL),
        (QuotedSnp(version=5), ALL),
        (QuotedSnp(vmpl=3), ALL),
        (QuotedSnp(signer_info=1, author_key_digest=b"a" * 48), ALL),
        (VLEK, LENT),
        (QuotedSnp(model=bytes.fromhex("19a002")), ALL),
    ],
)
def test_what_the_machine_says_is_in_the_verdict(vm: QuotedSnp, said: KeyEndorsement) -> None:
    found = verified(quote_of(vm, said))
    assert (found.tee, found.tcb_status, found.report_data) == (Tee.SNP, None, DATA)
    assert snp_of(found).product == "Genoa"
    assert snp_of(found).measurement == vm.measurement
    assert snp_of(found).reported_tcb == SnpTcb(10, 0, 23, 84)
    assert found.vm == snp_of(found).identity
    assert found.freshness.issued == datetime(2020, 1, 1, tzinfo=UTC)
    of_enclaves = (found.mrenclave, found.mrsigner, found.isvprodid, found.isvsvn, found.fmspc)
    assert (of_enclaves, found.debug) == ((b"", b"", 0, 0, b""), False)


def test_authorities_beside_the_report_need_not_be_in_the_collateral() -> None:
    quote = MACHINE.snp_quote(None, DATA)
    assert snp_of(verified(quote, AmdCollateral(lists=COLLATERAL.lists))) is not None


def test_a_chip_whose_certificate_has_eight_bytes_has_zeros_after_them_in_its_reports() -> None:
    content, short = MACHINE.chip.report(QuotedSnp(), DATA)[:0x2A0], MACHINE.chip.chip_id[:8]
    table = write_table({SnpCertificate.VCEK: MACHINE.chip.endorsed(KeyEndorsement(chip=short))})
    padded = content[:0x1A8] + bytes(56) + content[0x1E0:]
    found = snp_of(verified(MACHINE.chip.signed(padded) + table))
    assert found is not None
    assert found.chip_id == short + bytes(56)
    for last in (0x1A8, 0x1DF):
        other = padded[:last] + b"\1" + padded[last + 1 :]
        with pytest.raises(QuoteRefusedError, match="different chips"):
            verified(MACHINE.chip.signed(other) + table)


OTHER_TCB = bytes.fromhex("0a00000000001755")
BENT: dict[str, tuple[QuotedSnp, KeyEndorsement, QuoteProblem]] = {
    "version 1": (QuotedSnp(version=1), ALL, QuoteProblem.MALFORMED),
    "version 4": (QuotedSnp(version=4), ALL, QuoteProblem.MALFORMED),
    "version 6": (QuotedSnp(version=6), ALL, QuoteProblem.MALFORMED),
    "another line": (QuotedSnp(model=b"\x19\x01\x01"), ALL, QuoteProblem.MALFORMED),
    "unknown line": (QuotedSnp(model=b"\x1b\x01\x01"), ALL, QuoteProblem.MALFORMED),
    "platform info": (QuotedSnp(platform_info=1 << 6), ALL, QuoteProblem.MALFORMED),
    "platform info, later": (QuotedSnp(platform_info=1 << 8), ALL, QuoteProblem.MALFORMED),
    "signer info": (QuotedSnp(signer_info=1 << 5), ALL, QuoteProblem.MALFORMED),
    "no signer": (QuotedSnp(signer_info=7 << 2), ALL, QuoteProblem.MALFORMED),
    "an author's key that is invalid": (
        QuotedSnp(author_key_digest=b"a" * 48), ALL, QuoteProblem.MALFORMED),
    "reserved version": (
        QuotedSnp(committed_tcb=b"\0\0\1\0\0\0\0\0"), ALL, QuoteProblem.MALFORMED),
    "debug": (
        QuotedSnp(policy=bytes.fromhex("1f000b0000000000")), ALL, QuoteProblem.GUEST_POLICY),
    "migration agent": (
        QuotedSnp(policy=bytes.fromhex("1f00070000000000")), ALL, QuoteProblem.GUEST_POLICY),
    "policy's 17th bit": (
        QuotedSnp(policy=bytes.fromhex("1f00010000000000")), ALL, QuoteProblem.GUEST_POLICY),
    "unknown policy": (
        QuotedSnp(policy=bytes.fromhex("1f00030400000000")), ALL, QuoteProblem.GUEST_POLICY),
    "firmware": (QuotedSnp(reported_tcb=OTHER_TCB), ALL, QuoteProblem.WRONG_PLATFORM),
    "chip": (QuotedSnp(), KeyEndorsement(chip=b"c" * 64), QuoteProblem.WRONG_PLATFORM),
    "no chip": (QuotedSnp(), KeyEndorsement(), QuoteProblem.WRONG_PLATFORM),
    "short chip": (
        QuotedSnp(), KeyEndorsement(chip=MACHINE.chip.chip_id[:8]), QuoteProblem.WRONG_PLATFORM),
    "product": (
        QuotedSnp(), msgspec.structs.replace(ALL, product="Milan-B0"), QuoteProblem.WRONG_PLATFORM),
    "a provider's": (
        QuotedSnp(), msgspec.structs.replace(ALL, provider="one"), QuoteProblem.WRONG_PLATFORM),
    "no provider": (
        VLEK, msgspec.structs.replace(LENT, provider=""), QuoteProblem.WRONG_PLATFORM),
    "VLEK of a chip": (
        VLEK, msgspec.structs.replace(LENT, chip=b"c" * 64), QuoteProblem.WRONG_PLATFORM),
    "VCEK as VLEK": (VLEK, ALL, QuoteProblem.CHAIN),
    "VLEK as VCEK": (QuotedSnp(), LENT, QuoteProblem.CHAIN),
    "expired": (
        QuotedSnp(),
        msgspec.structs.replace(ALL, ends=AT - timedelta(days=1)),
        QuoteProblem.EXPIRED,
    ),
    "too early": (
        QuotedSnp(),
        msgspec.structs.replace(ALL, begins=AT + timedelta(days=1)),
        QuoteProblem.NOT_YET_VALID,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bent", BENT)
def test_what_must_not_be_accepted_is_refused_with_its_reason(bent: str) -> None:
    vm, said, reason = BENT[bent]
    with pytest.raises(QuoteRefusedError) as refused:
        verified(quote_of(vm, said))
    assert refused.value.reason is reason


RESERVED = [0x4C, 0x18B, 0x19F, 0x1EB, 0x1EF, 0x1F8, 0x29F]


@pytest.mark.parametrize("at", RESERVED)
def test_reserved_bytes_are_zero_though_they_are_signed(at: int) -> None:
    content = bytearray(MACHINE.chip.report(QuotedSnp(), DATA)[:0x2A0])
    content[at] = 1
    table = write_table({SnpCertificate.VCEK: MACHINE.chip.vcek})
    with pytest.raises(QuoteRefusedError, match="reserved"):
        verified(MACHINE.chip.signed(bytes(content)) + table)


def test_a_platform_that_hides_its_chip_is_refused_for_that() -> None:
    content = MACHINE.chip.report(QuotedSnp(), DATA)[:0x2A0]
    masked = MACHINE.chip.signed(content[:0x1A0] + bytes(64) + content[0x1E0:])
    for certificates in ({SnpCertificate.VCEK: MACHINE.chip.vcek}, {}):
        with pytest.raises(QuoteRefusedError, match="CHIP_ID") as refused:
            verified(masked + write_table(certificates))
        assert refused.value.reason is QuoteProblem.WRONG_PLATFORM


def test_each_kind_has_its_own_roots_and_collateral() -> None:
    quote = MACHINE.snp_quote(None, DATA)
    assert snp_of(verified(quote)) is not None
    with pytest.raises(QuoteRefusedError) as refused:
        Verifier(MACHINE.root_ca).verify(quote, COLLATERAL, AT)
    assert refused.value.reason is QuoteProblem.CHAIN
    with pytest.raises(QuoteRefusedError) as refused:
        Verifier(MACHINE.root_ca, AMD_ROOTS).verify(quote, COLLATERAL, AT)
    assert refused.value.reason is QuoteProblem.CHAIN
    for other, collateral in (
        (quote, MACHINE.collateral),
        (MACHINE.quote(DATA), COLLATERAL),
        (MACHINE.td_quote(None, DATA), COLLATERAL),
    ):
        with pytest.raises(QuoteRefusedError) as refused:
            VERIFIER.verify(other, collateral, AT)
        assert refused.value.reason is QuoteProblem.WRONG_PLATFORM


@cache
def ask() -> x509.Certificate:
    return x509.load_pem_x509_certificate(amd_vendor.ASK.encode())


def listed(begins: datetime, ends: datetime, *revoked: x509.Certificate) -> bytes:
    issuer = ("ARK-Genoa", amd_vendor.ark_key())
    return issue_amd_list(issuer, revoked, begins, ends).public_bytes(Encoding.DER)


def test_lists_decide_by_their_time_and_the_newest_counts() -> None:
    day = timedelta(days=1)
    quote = MACHINE.snp_quote(None, DATA)
    outcomes: dict[str, tuple[Callable[[], tuple[bytes, ...]], QuoteProblem]] = {
        "revoked": (lambda: (listed(AT - day, AT + day, ask()),), QuoteProblem.REVOKED),
        "newer revokes": (
            lambda: (*COLLATERAL.lists, listed(AT - day, AT + day, ask())),
            QuoteProblem.REVOKED,
        ),
        "ended": (lambda: (listed(AT - 2 * day, AT - day),), QuoteProblem.EXPIRED),
        "future": (lambda: (listed(AT + day, AT + 2 * day),), QuoteProblem.NOT_YET_VALID),
        "none": (lambda: (), QuoteProblem.COLLATERAL),
        "forged": (lambda: (flipped(COLLATERAL.lists[0], 60),), QuoteProblem.COLLATERAL),
        "no list": (lambda: (b"list",), QuoteProblem.COLLATERAL),
    }
    for name, (lists, reason) in outcomes.items():
        bent = msgspec.structs.replace(COLLATERAL, lists=lists())
        with pytest.raises(QuoteRefusedError) as refused:
            verified(quote, bent)
        assert refused.value.reason is reason, name
    newer = msgspec.structs.replace(COLLATERAL, lists=(listed(AT - day, AT + day),))
    assert verified(quote, newer).freshness.expires == AT + day


def test_an_authority_that_no_root_issued_certifies_nobody() -> None:
    key = amd_vendor.ask_key()
    begins, ends = AT - timedelta(days=1), AT + timedelta(days=1)
    for name, issuer in (("SEV-Genoa", "ARK-Genoa"), ("SEV-Genoa", "SEV-Genoa")):
        forged = issue_amd_authority(name, key.public_key(), (issuer, key), begins, ends)
        der = forged.public_bytes(Encoding.DER)
        quote = MACHINE.chip.report(QuotedSnp(), DATA) + write_table(
            {SnpCertificate.VCEK: MACHINE.chip.vcek, SnpCertificate.ASK: der}
        )
        with pytest.raises(QuoteRefusedError) as refused:
            verified(quote, AmdCollateral((), COLLATERAL.lists))
        assert refused.value.reason is QuoteProblem.CHAIN


def test_a_root_beside_the_report_has_to_be_the_pinned_one() -> None:
    table = {SnpCertificate.VCEK: MACHINE.chip.vcek, SnpCertificate.ARK: AMD_ROOTS["Genoa"]}
    report = MACHINE.chip.report(QuotedSnp(), DATA)
    with pytest.raises(QuoteRefusedError):
        verified(report + write_table(table))
    assert snp_of(verified(report + write_table({**table, SnpCertificate.ARK: ROOT}))) is not None


# --- files of collateral ---


def test_files_are_read_as_amd_gives_them_out(tmp_path: Path) -> None:
    (tmp_path / "cert_chain").write_text("\n" + amd_vendor.ASK + "\n" + amd_vendor.ROOT)
    (tmp_path / "crl").write_bytes(COLLATERAL.lists[0])
    (tmp_path / "vcek.der").write_bytes(MACHINE.chip.vcek)
    (tmp_path / ".hidden").write_bytes(b"no certificate")
    found = read_amd_path(tmp_path)
    assert found.lists == COLLATERAL.lists
    assert len(found.certificates) == 3
    assert snp_of(verified(MACHINE.chip.report(QuotedSnp(), DATA), found)) is not None


@pytest.mark.parametrize(
    "content",
    [b"", b"0", b"\x30\x03\x02\x01\x00", b"-----BEGIN CERTIFICATE-----\nAA", b"text",
     amd_vendor.ASK.encode() + b"more", b"\x30\x05\x30\x03\x04\x01\x00"],
)  # fmt: skip
def test_a_file_that_is_neither_certificate_nor_list_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CollateralRefusedError):
        read_amd_path(path)
