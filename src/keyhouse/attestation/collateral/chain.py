"""The certificate chains of a quote and of its collateral.

The quote library ignores the roots in chains, and ignores one chain completely. This module checks
every byte. A chain must be exactly the PEM of its certificates. Its last certificate must be the
pinned root. The issuer of the revocation list must also have issued the PCK certificate.
"""

import binascii
import functools
import ssl
from datetime import datetime

from cryptography import x509

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError

_END = "-----END CERTIFICATE-----\n"
_MAX_CHAIN = 32_768  # characters of PEM
_PCK_CHAIN = 3  # PCK, its CA, root
_ISSUER_CHAIN = 2  # signer, root


def read_chain(pem: str, where: str) -> tuple[bytes, ...]:
    """Return the certificates of ``pem`` as DER. ``where`` names the chain in refusals.

    Lines may end with CR LF. The last line end may be missing. One NUL may follow, as in quotes.
    """
    text = pem.removesuffix("\0").replace("\r\n", "\n")
    text = text if text.endswith("\n") else text + "\n"
    if len(text) > _MAX_CHAIN or not text.isascii():
        raise _refused(f"{where} is not a chain of PEM certificates")
    blocks = [block + _END for block in text.split(_END)[:-1]]
    try:
        chain = tuple(ssl.PEM_cert_to_DER_cert(block) for block in blocks)
    except (ValueError, binascii.Error):
        raise _refused(f"{where} is not a chain of PEM certificates") from None
    if not chain or "".join(map(ssl.DER_cert_to_PEM_cert, chain)) != text:
        raise _refused(f"{where} has bytes outside its certificates")
    return chain


def require_same_authority(pck: tuple[bytes, ...], collateral: Collateral, root_ca: bytes) -> None:
    """Raise ``QuoteRefusedError`` unless the collateral belongs to the CA of the quote.

    ``pck``: PCK certificate, its CA and the root, DER. All chains must end in ``root_ca``.
    """
    if require_collateral_roots(collateral, root_ca) != pck[1]:
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the collateral's revocation list and the quote's PCK certificate have different CAs",
            hint="use the collateral of the platform that made the quote",
        )


def require_pck_root(pck_chain: bytes, root_ca: bytes) -> tuple[bytes, ...]:
    """Return a quote's PCK certificate, its CA and the root, DER; the root must be ``root_ca``."""
    pck = read_chain(pck_chain.decode("latin-1"), "the quote's certificate chain")
    _require_end(pck, _PCK_CHAIN, root_ca, "the quote's certificate chain")
    return pck


@functools.lru_cache(maxsize=64)
def require_collateral_roots(collateral: Collateral, root_ca: bytes) -> bytes:
    """Return the issuer of the PCK revocation list, DER. All chains must end in ``root_ca``."""
    issuers = _issuers(collateral.pck_crl_issuer_chain, "pck_crl_issuer_chain", root_ca)
    _issuers(collateral.tcb_info_issuer_chain, "tcb_info_issuer_chain", root_ca)
    _issuers(collateral.qe_identity_issuer_chain, "qe_identity_issuer_chain", root_ca)
    return issuers[0]


def why_chain_refused(pck_chain: bytes, collateral: Collateral, at: datetime) -> QuoteProblem:
    """Return why a chain was refused: ``EXPIRED``, ``NOT_YET_VALID``, ``REVOKED``, else ``CHAIN``.

    The quote library has the same text for all of these: "failed to verify certificate chain". The
    result only names the reason. It never turns a refusal into an acceptance.
    """
    try:
        certificates = _certificates(pck_chain, collateral)
        lists = [
            x509.load_der_x509_crl(collateral.root_ca_crl),
            x509.load_der_x509_crl(collateral.pck_crl),
        ]
        return _time_problem(certificates, lists, at) or _revocation(certificates, lists)
    # The bytes are not authenticated. Whatever exception the parser raises, the refusal stays.
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


def _issuers(pem: str, name: str, root_ca: bytes) -> tuple[bytes, ...]:
    chain = read_chain(pem, f"the collateral's {name}")
    _require_end(chain, _ISSUER_CHAIN, root_ca, f"the collateral's {name}")
    return chain


def _require_end(chain: tuple[bytes, ...], length: int, root_ca: bytes, where: str) -> None:
    if len(chain) != length:
        raise _refused(f"{where} has {len(chain)} certificates, must have {length}")
    if chain[-1] != root_ca:
        raise _refused(f"{where} does not end in the pinned root")


def _refused(problem: str) -> QuoteRefusedError:
    return QuoteRefusedError(
        QuoteProblem.CHAIN,
        f"the quote does not verify: {problem}",
        hint="use the collateral and the root of the platform that made the quote",
    )
