"""Finds out why a certificate chain was refused, for the message alone.

The quote library says "failed to verify certificate chain" for a forged, an expired and a revoked
certificate alike. What is found here only names the reason of a refusal that stands already; it
can never turn one into an acceptance.
"""

from datetime import datetime

from cryptography import x509

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.chain import read_chain
from keyhouse.attestation.errors import QuoteProblem

__all__ = ["why_chain_refused"]


def why_chain_refused(pck_chain: bytes, collateral: Collateral, at: datetime) -> QuoteProblem:
    """Return ``EXPIRED``, ``NOT_YET_VALID``, ``REVOKED`` or, if none is plain, ``CHAIN``."""
    try:
        certificates = _certificates(pck_chain, collateral)
        lists = [
            x509.load_der_x509_crl(collateral.root_ca_crl),
            x509.load_der_x509_crl(collateral.pck_crl),
        ]
        return _time_problem(certificates, lists, at) or _revocation(certificates, lists)
    # Bytes that nobody vouches for: whatever the parser says, the refusal stands as it was.
    except Exception:  # noqa: BLE001
        return QuoteProblem.CHAIN


def _certificates(pck_chain: bytes, collateral: Collateral) -> list[x509.Certificate]:
    texts = (
        pck_chain.decode("latin-1"),
        collateral.tcb_info_issuer_chain,
        collateral.qe_identity_issuer_chain,
    )
    ders = [der for text in texts for der in read_chain(text, "chain")]
    return [x509.load_der_x509_certificate(der) for der in ders]


def _time_problem(
    certificates: list[x509.Certificate],
    lists: list[x509.CertificateRevocationList],
    at: datetime,
) -> QuoteProblem | None:
    ends = [c.not_valid_after_utc for c in certificates]
    ends += [r.next_update_utc for r in lists if r.next_update_utc]
    starts = [c.not_valid_before_utc for c in certificates]
    starts += [r.last_update_utc for r in lists]
    if at > min(ends):
        return QuoteProblem.EXPIRED
    return QuoteProblem.NOT_YET_VALID if at < max(starts) else None


def _revocation(
    certificates: list[x509.Certificate], lists: list[x509.CertificateRevocationList]
) -> QuoteProblem:
    for revoked in lists:
        serials = {entry.serial_number for entry in revoked}
        if any(c.serial_number in serials and c.issuer == revoked.issuer for c in certificates):
            return QuoteProblem.REVOKED
    return QuoteProblem.CHAIN
