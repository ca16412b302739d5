"""The oracle: decides whether a verifier may accept a quote or collateral.

The oracle shares no code with the verifier. It reads cases with the standard ``json`` and OpenSSL.
It judges only accepted cases. They are rare, so the oracle may be slow. Two conditions hold:

1. *A rightful signer has signed every covered part* (``forgery.case``).
2. *The parts belong together* by Intel's rules. The case has one kind of platform (TEE, FMSPC,
   pceId), known versions and equal evaluation numbers. The quoting enclave matches its identity,
   and its report confirms the attestation key. No certificate is revoked, all dates are valid, and
   the enclave is not a debug enclave. A verdict ``UpToDate`` needs ``UpToDate`` in the matching
   levels of the platform, the quoting enclave and, for TDX, the module.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from fuzz.forgery.case import (
    ForgedCase,
    QuoteParts,
    certificates,
    covered_by_collateral,
    covered_by_quote,
    parts_of_quote,
)
from fuzz.target import FindingError

from keyhouse.attestation import Collateral, Verdict
from keyhouse.attestation.kinds.dcap.td import TdMeasurements

__all__ = ["require_collateral", "require_quote"]

_SGX: Final = bytes.fromhex("2a864886f84d010d01")  # OID 1.2.840.113741.1.13.1
_KINDS: Final = {3: ("SGX", "QE"), 4: ("TDX", "TD_QE"), 5: ("TDX", "TD_QE")}


def require_collateral(case: ForgedCase) -> None:
    """Raise ``FindingError`` if the case's collateral must not be accepted."""
    if missing := _not_signed(covered_by_collateral(case.collateral), case):
        raise FindingError(
            f"collateral was accepted with {missing} parts that nobody rightful signed"
        )
    _require_all(_collateral_rules(case.collateral, case.at), "collateral was accepted")


def require_quote(case: ForgedCase, verdict: Verdict) -> None:
    """Raise ``FindingError`` if the quote must not be accepted, or if the verdict is wrong."""
    require_collateral(case)
    parts = parts_of_quote(case.quote)
    if missing := _not_signed(covered_by_quote(parts), case):
        raise FindingError(f"a quote was accepted with {missing} parts that nobody rightful signed")
    _require_all(_quote_rules(case, parts), "a quote was accepted")
    _require_all(_verdict_rules(case, parts, verdict), "a verdict is wrong")


def _not_signed(found: Iterator[bytes], case: ForgedCase) -> int:
    return sum(each not in case.signed for each in found)


def _require_all(rules: dict[str, Callable[[], bool]], what: str) -> None:
    for name, holds in rules.items():
        if not holds():
            raise FindingError(f"{what}, but this rule is violated: {name}")


def _collateral_rules(collateral: Collateral, at: int) -> dict[str, Callable[[], bool]]:
    tcb, qe = json.loads(collateral.tcb_info), json.loads(collateral.qe_identity)
    root_list = x509.load_der_x509_crl(collateral.root_ca_crl)
    pck_list = x509.load_der_x509_crl(collateral.pck_crl)
    chains = [
        certificates(pem.encode())
        for pem in (
            collateral.pck_crl_issuer_chain,
            collateral.tcb_info_issuer_chain,
            collateral.qe_identity_issuer_chain,
        )
    ]
    moment = datetime.fromtimestamp(at, UTC)
    return {
        "equal evaluation numbers": lambda: (
            tcb["tcbEvaluationDataNumber"] == qe["tcbEvaluationDataNumber"]
        ),
        "one kind of platform": lambda: (tcb["id"], qe["id"]) in set(_KINDS.values()),
        "documents in their time": lambda: all(
            _date(each["issueDate"]) <= moment <= _date(each["nextUpdate"]) for each in (tcb, qe)
        ),
        "lists in their time": lambda: all(
            each.last_update_utc <= moment <= (each.next_update_utc or moment)
            for each in (root_list, pck_list)
        ),
        "certificates in their time": lambda: all(
            _in_time(each, moment) for chain in chains for each in chain
        ),
        "no signer revoked": lambda: not any(_revoked(chain[0], root_list) for chain in chains),
    }


def _quote_rules(case: ForgedCase, parts: QuoteParts) -> dict[str, Callable[[], bool]]:
    tcb, qe = json.loads(case.collateral.tcb_info), json.loads(case.collateral.qe_identity)
    pck, ca, root = certificates(parts.chain)
    moment = datetime.fromtimestamp(case.at, UTC)
    root_list = x509.load_der_x509_crl(case.collateral.root_ca_crl)
    pck_list = x509.load_der_x509_crl(case.collateral.pck_crl)
    report = parts.qe_report
    return {
        "the pinned root": lambda: _der(root) == case.root,
        "the quoting enclave confirms the key": lambda: (
            report[320:352] == hashlib.sha256(parts.key + parts.authentication).digest()
        ),
        "documents of the quote's kind": lambda: (tcb["id"], qe["id"]) == _KINDS[parts.version],
        "known versions": lambda: (tcb["version"], tcb["tcbType"], qe["version"]) == (3, 0, 2),
        "the FMSPC is equal": lambda: bytes.fromhex(tcb["fmspc"]) == _pck_value(pck, 4, 6),
        "the pceId is equal": lambda: bytes.fromhex(tcb["pceId"]) == _pck_value(pck, 3, 2),
        "chain in its time": lambda: all(_in_time(each, moment) for each in (pck, ca, root)),
        "no revoked machine": lambda: not _revoked(pck, pck_list) and not _revoked(ca, root_list),
        "no debug enclave": lambda: not _is_debug(parts),
        "no access by service TDs or migration": lambda: _is_closed(parts),
        "the vendor's TDX module": lambda: _module_fits(parts, tcb),
        "the quoting enclave's signer": lambda: report[128:160] == bytes.fromhex(qe["mrsigner"]),
        "the quoting enclave's product": lambda: _number(report[256:258]) == qe["isvprodid"],
        "the quoting enclave's attributes": lambda: _masked(report[48:64], qe, "attributes"),
        "the quoting enclave's selection": lambda: _masked(report[16:20], qe, "miscselect"),
    }


def _verdict_rules(
    case: ForgedCase, parts: QuoteParts, verdict: Verdict
) -> dict[str, Callable[[], bool]]:
    report = parts.report
    tcb, qe = json.loads(case.collateral.tcb_info), json.loads(case.collateral.qe_identity)
    pck = certificates(parts.chain)[0]
    rules: dict[str, Callable[[], bool]] = {
        "not revoked": lambda: verdict.tcb_status != "Revoked",
        "evaluation number": lambda: (
            verdict.freshness.tcb_evaluation_number == tcb["tcbEvaluationDataNumber"]
        ),
        "FMSPC": lambda: verdict.fmspc == bytes.fromhex(tcb["fmspc"]),
    }
    if parts.version != 3:
        return rules | {
            "report data": lambda: verdict.report_data == report[520:584],
            "measurements of the confidential VM": lambda: _says(verdict, report),
            "UpToDate": lambda: (
                verdict.tcb_status != "UpToDate"
                or (
                    _platform_status(pck, tcb, report[:16]),
                    _module_status(report, tcb),
                    _enclave_status(parts, qe),
                )
                == ("UpToDate",) * 3
            ),
        }
    return rules | {
        "report data": lambda: verdict.report_data == report[320:384],
        "MRENCLAVE": lambda: verdict.mrenclave == report[64:96],
        "MRSIGNER": lambda: verdict.mrsigner == report[128:160],
        "product": lambda: verdict.isvprodid == _number(report[256:258]),
        "version": lambda: verdict.isvsvn == _number(report[258:260]),
        "UpToDate": lambda: (
            verdict.tcb_status != "UpToDate"
            or (_platform_status(pck, tcb), _enclave_status(parts, qe)) == ("UpToDate",) * 2
        ),
    }


def _platform_status(pck: x509.Certificate, tcb: dict[str, Any], tee_tcb_svn: bytes = b"") -> str:
    """Return the status of the machine's first matching level. Source: Intel PCS v4."""
    svns = [*_pck_value(pck, 2, 16, inner=18), *tee_tcb_svn]
    pce = _pce_svn(pck)
    for level in tcb["tcbLevels"]:
        components = list(level["tcb"]["sgxtcbcomponents"])
        if tee_tcb_svn:
            components += level["tcb"]["tdxtcbcomponents"]
        wanted = [each["svn"] for each in components]
        if pce >= level["tcb"]["pcesvn"] and all(
            have >= want for have, want in zip(svns, wanted, strict=True)
        ):
            return str(level["tcbStatus"])
    return "none"


def _module_status(report: bytes, tcb: dict[str, Any]) -> str:
    """Return the status of the TDX module in its line. A module without a line is ``UpToDate``."""
    lines = tcb.get("tdxModuleIdentities")
    if not (lines and report[1]):
        return "UpToDate"
    line = next(each for each in lines if each["id"].upper() == f"TDX_{report[1]:02X}")
    reached = (level for level in line["tcbLevels"] if report[0] >= level["tcb"]["isvsvn"])
    return str(next(reached)["tcbStatus"])


def _enclave_status(parts: QuoteParts, qe: dict[str, Any]) -> str:
    svn = _number(parts.qe_report[258:260])
    reached = (level for level in qe["tcbLevels"] if svn >= level["tcb"]["isvsvn"])
    return str(next(reached)["tcbStatus"])


def _pck_value(pck: x509.Certificate, entry: int, size: int, *, inner: int = 0) -> bytes:
    """Return an octet string of the SGX extension. ``inner`` names an entry of the sequence 2.

    Ignores tags: the library under test ignores them too, and only the vendor can change them.
    """
    oid = _SGX + bytes([entry]) + (bytes([inner]) if inner else b"")
    entry_of = re.escape(bytes([len(oid)]) + oid) + b"." + re.escape(bytes([size]))
    found = list(re.finditer(entry_of, _sgx_extension(pck), re.DOTALL))
    if len(found) != 1:
        raise FindingError(
            f"a PCK certificate was accepted with {len(found)} values of an entry, must be 1"
        )
    return found[0].string[found[0].end() :][:size]


def _pce_svn(pck: x509.Certificate) -> int:
    oid = _SGX + bytes([2, 17])
    rest = _sgx_extension(pck).partition(bytes([len(oid)]) + oid)[2]
    return int.from_bytes(rest[2 : 2 + rest[1]])


def _sgx_extension(pck: x509.Certificate) -> bytes:
    identifier = x509.ObjectIdentifier("1.2.840.113741.1.13.1")
    return pck.extensions.get_extension_for_oid(identifier).value.public_bytes()


def _masked(found: bytes, qe: dict[str, Any], name: str) -> bool:
    """Compare the bits under the mask. Bits outside of the mask have no meaning."""
    wanted, mask = bytes.fromhex(qe[name]), bytes.fromhex(qe[f"{name}Mask"])
    if name == "miscselect":  # big-endian in the document, little-endian in the report
        found = found[::-1]
    return all(f & m == w & m for f, w, m in zip(found, wanted, mask, strict=True))


def _is_debug(parts: QuoteParts) -> bool:
    report = parts.report
    return bool(report[48] & 2) if parts.version == 3 else report[120] != 0


def _is_closed(parts: QuoteParts) -> bool:
    """Return whether no service TD and no migration can access a VM.

    Source: Intel, TDX module, 1.5.
    """
    if parts.version == 3:
        return True
    attributes, has_service = _number(parts.report[120:128]), any(parts.report[600:648])
    sept_ve_disable, migratable = 1 << 28, 1 << 29
    return bool(attributes & sept_ve_disable) and not (attributes & migratable or has_service)


def _module_fits(parts: QuoteParts, tcb: dict[str, Any]) -> bool:
    """Compare signer and attributes with the module and the module lines of the TCB info."""
    if parts.version == 3:
        return True
    lines = (tcb["tdxModule"], *tcb.get("tdxModuleIdentities", ()))
    signer, attributes = parts.report[64:112], parts.report[112:120]
    return any(
        signer == bytes.fromhex(line["mrsigner"]) and _masked(attributes, line, "attributes")
        for line in lines
    )


def _says(verdict: Verdict, report: bytes) -> bool:
    """Return whether the measurements in the verdict are equal to the fields of the report."""
    td = verdict.measurements
    if not isinstance(td, TdMeasurements):
        return False
    owners = td.mr_config_id + td.mr_owner + td.mr_owner_config
    whole = td.attributes + td.xfam + td.mrtd + owners + b"".join(td.rtmrs)
    return whole == report[120:520] and td.mr_seam == report[16:64]


def _revoked(certificate: x509.Certificate, revoked: x509.CertificateRevocationList) -> bool:
    return any(each.serial_number == certificate.serial_number for each in revoked)


def _in_time(certificate: x509.Certificate, moment: datetime) -> bool:
    return certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc


def _date(text: str) -> datetime:
    return datetime.fromisoformat(text.upper())  # RFC 3339, section 5.6, permits small letters


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
