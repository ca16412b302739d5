"""Forged reports of SEV-SNP: the rightful signers, and the oracle of acceptable reports.

A case lists everything that the rightful signers have signed, as digests of *covered parts*:

- of a report: the first 672 bytes, with the public key of the chip
- of a certificate: the to-be-signed part
- of a revocation list: the whole list, because only lists with valid signatures decide which list
  is the newest

Bytes without a signature may differ: the signatures of reports and certificates. A certificate may
be beside the report or in the collateral.
"""

import dataclasses
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fuzz.forgery.case import part
from fuzz.target import FindingError

from keyhouse.attestation import Verdict
from keyhouse.attestation.kinds.snp.report import SnpMeasurements
from keyhouse_simulation import KeyEndorsement, amd_vendor, make_machine
from keyhouse_simulation.amd_certificates import (
    issue_amd_authority,
    issue_amd_list,
    issue_endorsement,
)
from keyhouse_simulation.snp import ROOT, SnpChip

__all__ = ["NOW", "SIGNED", "ForgedReport", "SnpWorld", "make_snp_world", "require_report"]

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIGNED: Final = 0x2A0
"""Length of the signed part of a report, in bytes."""

_REPORT: Final = 0x4A0
_ENTRY: Final = struct.Struct("<16sII")
_KEY_CERTIFICATES: Final = {"63da758d": "SEV-VCEK", "a8074bc2": "SEV-VLEK"}
_ROOT: Final = "c0b406a4"
_AMD: Final = "1.3.6.1.4.1.3704.1"
_DAY: Final = timedelta(days=1)


class ForgedReport(msgspec.Struct, frozen=True, array_like=True):
    """A report with its table, verified with certificates and lists (DER) at ``at`` (Unix seconds).

    ``signed`` has the digests of all covered parts of rightful signers. The verifier must accept a
    ``genuine`` case.
    """

    quote: bytes
    certificates: tuple[bytes, ...]
    lists: tuple[bytes, ...]
    at: int
    signed: frozenset[bytes]
    genuine: bool = False


@dataclasses.dataclass(frozen=True)
class SnpWorld:
    """One simulated AMD with two chips, and forged certificates and lists.

    The simulated AMD has signed ``keys``, ``authorities`` and ``lists``. Some of them are unusual:
    for a different chip, time or kind, or a list with a revoked authority. The fields with
    ``forged`` in their name have a signature of a wrong key, or a wrong issuer.
    """

    chip: SnpChip
    stranger: SnpChip
    keys: tuple[bytes, ...]
    authorities: tuple[bytes, ...]
    lists: tuple[bytes, ...]
    forged_certificates: tuple[bytes, ...]
    forged_lists: tuple[bytes, ...]

    @property
    def signed(self) -> frozenset[bytes]:
        """The covered parts of the rightful certificates and lists."""
        certificates = map(x509.load_der_x509_certificate, (*self.keys, *self.authorities))
        found = {part("cert", each.tbs_certificate_bytes) for each in certificates}
        return frozenset(found | {part("list", der) for der in self.lists})

    def of_report(self, content: bytes) -> bytes:
        """Return the covered part of a report with the signed bytes ``content``."""
        return part("report", content, _spki(x509.load_der_x509_certificate(self.chip.vcek)))


def make_snp_world() -> SnpWorld:
    """Return a world with new chips."""
    chip, stranger = (SnpChip(make_machine(NOW)) for _ in range(2))
    of_chip, lent = KeyEndorsement(chip=chip.chip_id), _LENT
    keys = (
        *(chip.vcek, chip.endorsed(lent)),
        *(chip.endorsed(said) for said in _odd(of_chip)),
        chip.endorsed(msgspec.structs.replace(lent, chip=chip.chip_id)),
    )
    key = ec.generate_private_key(ec.SECP384R1()).public_key()
    ark, ask = ("ARK-Genoa", amd_vendor.ark_key()), ("SEV-Genoa", amd_vendor.ask_key())
    impostors = (("SEV-Genoa", ark[1]), ark, ("SEV-VLEK-Genoa", ark[1]))
    by_ask = issue_amd_authority("SEV-Genoa", ask[1].public_key(), ask, NOW - _DAY, NOW + _DAY)
    named_ark = issue_amd_authority(
        "SEV-Genoa", ask[1].public_key(), ("ARK-Genoa", ask[1]), NOW - _DAY, NOW + _DAY
    )
    return SnpWorld(
        chip=chip,
        stranger=stranger,
        keys=keys,
        authorities=tuple(_ders(amd_vendor.ASK, amd_vendor.VLEK_AUTHORITY)),
        lists=tuple(_lists(ark)),
        forged_certificates=(
            *(_der(issue_endorsement(of_chip, key, issuer)) for issuer in impostors),
            *(_der(by_ask), _der(named_ark)),
        ),
        forged_lists=tuple(
            _der(issue_amd_list(issuer, (), NOW - _DAY, NOW + _DAY))
            for issuer in (("ARK-Genoa", ask[1]), ask, ("ARK-Milan", ark[1]))
        ),
    )


_LENT: Final = KeyEndorsement(name="SEV-VLEK", product="Genoa", provider="a provider")


def _odd(usual: KeyEndorsement) -> Iterator[KeyEndorsement]:
    """Yield contents of rightful certificates for different chips, firmware and times."""
    changes: tuple[dict[str, Any], ...] = (
        {"chip": bytes(64)},
        {"chip": b""},
        {"chip": usual.chip[:8]},
        {"product": "Milan-B0"},
        {"provider": "a provider"},
        {"tcb": msgspec.structs.replace(usual.tcb, microcode=85)},
        {"ends": NOW - _DAY},
        {"begins": NOW + _DAY},
    )
    for change in changes:
        yield msgspec.structs.replace(usual, **change)


def _lists(ark: tuple[str, Any]) -> Iterator[bytes]:
    ask = x509.load_pem_x509_certificate(amd_vendor.ASK.encode())
    yield _der(x509.load_pem_x509_crl(amd_vendor.LIST.encode()))
    yield _der(issue_amd_list(ark, (), NOW - 2 * _DAY, NOW + 30 * _DAY))
    yield _der(issue_amd_list(ark, (ask,), NOW - _DAY, NOW + 30 * _DAY))
    yield _der(issue_amd_list(ark, (), NOW - 3 * _DAY, NOW - _DAY))
    yield _der(issue_amd_list(ark, (), NOW + _DAY, NOW + 30 * _DAY))


def _ders(*pems: str) -> Iterator[bytes]:
    for pem in pems:
        yield _der(x509.load_pem_x509_certificate(pem.encode()))


def _der(one: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    return one.public_bytes(Encoding.DER)


def _spki(certificate: x509.Certificate) -> bytes:
    key = certificate.public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


# --- the oracle ---


def require_report(case: ForgedReport, verdict: Verdict) -> None:
    """Raise ``FindingError`` if the report must not be accepted, or if the verdict is wrong."""
    report, table = case.quote[:SIGNED], _table(case.quote[_REPORT:])
    _require_content(report)
    kind = "SEV-VLEK" if report[0x48] & 0b100 else "SEV-VCEK"
    given = [der for guid, der in table.items() if _KEY_CERTIFICATES.get(guid) == kind]
    at = datetime.fromtimestamp(case.at, UTC)
    keys = [each for each in _loaded(given or case.certificates) if _is_rightful(each, case, at)]
    keys = [each for each in keys if _is_of(each, kind, report)]
    signers = [each for each in keys if part("report", report, _spki(each)) in case.signed]
    if not signers:
        raise FindingError("a report was accepted without a signature of a rightful key")
    authorities = [
        each
        for each in _loaded([*table.values(), *case.certificates])
        if _is_rightful(each, case, at) and any(each.subject == signer.issuer for signer in signers)
    ]
    if not authorities or table.get(_ROOT, ROOT) != ROOT:
        raise FindingError("a report was accepted without a rightful authority")
    _require_unrevoked(case, authorities, at)
    found = verdict.measurements
    if not isinstance(found, SnpMeasurements) or (
        found.measurement,
        found.host_data,
        found.policy,
        found.chip_id,
    ) != (*(report[0x90:0xC0], report[0xC0:0xE0], report[0x08:0x10], report[0x1A0:0x1E0]),):
        raise FindingError("the verdict and the signed report differ in a measurement of the VM")
    if (verdict.report_data, found.product) != (report[0x50:0x90], "Genoa"):
        raise FindingError("the verdict and the signed report differ in report data or product")


def _require_content(report: bytes) -> None:
    """Require acceptable content. A chip may sign unacceptable content. Offsets: AMD, 56860."""
    policy = int.from_bytes(report[0x08:0x10], "little")
    if policy & (1 << 18 | 1 << 19) or not policy & 1 << 17 or policy >> 26:
        raise FindingError("a report was accepted with an unacceptable guest policy")
    version = int.from_bytes(report[:4], "little")
    reserved = [(0x4C, 0x50), (0x18B, 0x1A0), (0x1EB, 0x1EC), (0x1EF, 0x1F0), (0x208, SIGNED)]
    reserved += [(0x1F8, 0x208)] if version < 5 else []
    if version not in {2, 3, 5} or any(any(report[begin:end]) for begin, end in reserved):
        raise FindingError("a report of an unknown form was accepted")
    if report[0x34:0x38] != b"\1\0\0\0" or report[0x48] >> 2 > 1:
        raise FindingError("a report was accepted with an unknown signature algorithm or key")


def _table(content: bytes) -> dict[str, bytes]:
    found = {}
    for at in range(0, len(content), _ENTRY.size):
        guid, offset, length = _ENTRY.unpack(content[at : at + _ENTRY.size])
        if not length:
            break
        found[guid.hex()[:8]] = content[offset : offset + length]
    return found


def _loaded(ders: Iterable[bytes]) -> Iterator[x509.Certificate]:
    for der in ders:
        try:
            yield x509.load_der_x509_certificate(der)
        except ValueError:
            continue


def _is_rightful(certificate: x509.Certificate, case: ForgedReport, at: datetime) -> bool:
    if part("cert", certificate.tbs_certificate_bytes) not in case.signed:
        return False  # the rest of such a certificate may be unreadable
    return certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc


def _is_of(certificate: x509.Certificate, kind: str, report: bytes) -> bool:
    """Return whether a certificate is for the chip and the firmware of ``report``."""
    (name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    said = {
        each.oid.dotted_string.removeprefix(f"{_AMD}."): each.value.public_bytes()
        for each in certificate.extensions
    }
    if name.value != kind:
        return False
    tcb = report[0x180:0x188]
    versions = {"3.1": tcb[0], "3.2": tcb[1], "3.3": tcb[6], "3.8": tcb[7]}
    fits = all(int.from_bytes(said[arc][2:]) == number for arc, number in versions.items())
    of_chip = kind == "SEV-VLEK" or said.get("4", b"").ljust(64, b"\0") == report[0x1A0:0x1E0]
    return fits and of_chip and said["2"][2:].startswith(b"Genoa") and not any(tcb[2:6])


def _require_unrevoked(
    case: ForgedReport, authorities: list[x509.Certificate], at: datetime
) -> None:
    rightful = [der for der in case.lists if part("list", der) in case.signed]
    lists = [x509.load_der_x509_crl(der) for der in rightful]
    if not lists:
        raise FindingError("a report was accepted without a revocation list")
    newest = max(lists, key=lambda each: each.last_update_utc)
    end = newest.next_update_utc
    if end is None or not newest.last_update_utc <= at <= end:
        raise FindingError("a report was accepted with an expired or a future revocation list")
    serials = [each.serial_number for each in authorities]
    if all(newest.get_revoked_certificate_by_serial_number(one) is not None for one in serials):
        raise FindingError("a report was accepted with a revoked authority")
