"""Verifies chains and signatures of quotes and collateral before the quote library parses them.

A panic in the quote library (dcap-qvl) aborts the whole process, and Python cannot catch it. So the
library's parsers must never see unauthenticated certificates, lists or documents. This module
verifies their signatures up to the pinned root. The library then repeats these checks and makes all
others. A successful check here accepts nothing.

The library also ignores the roots in chains, and ignores one chain completely. So this module
checks every byte of a chain. A chain must be exactly the PEM of its certificates. Its last
certificate must be the pinned root. The issuer of the revocation list must also have issued the PCK
certificate.

The exceptions of a parser for hostile bytes vary and may contain the bytes. So every exception
becomes a refusal with our own text.
"""

import binascii
import functools
import itertools
import ssl
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.errors import (
    ConfigurationRefusedError,
    QuoteProblem,
    QuoteRefusedError,
    refusal,
)

_END = "-----END CERTIFICATE-----\n"
_MAX_CHAIN = 32_768  # characters of PEM, chosen: real chains have a few thousand
_PCK_CHAIN = 3  # certificates, Intel's PCK certificate profile: PCK, its CA, root
_ISSUER_CHAIN = 2  # certificates, Intel's PCS API: signer, root


def read_chain(pem: str, where: str) -> tuple[bytes, ...]:
    """Return the certificates of ``pem`` as DER. ``where`` names the chain in refusals.

    Lines may end with CR LF. The last line end may be missing. A NUL may follow, as in quotes.
    Raises ``QuoteRefusedError``. No signature is verified.
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
    """Raise ``QuoteRefusedError`` unless quote and collateral have the same PCK CA.

    ``pck``: the quote's PCK certificate, its CA and the root, DER. This CA must have issued the PCK
    revocation list of ``collateral``. All chains must end in ``root_ca``. No signature is verified.
    """
    if require_collateral_roots(collateral, root_ca) != pck[1]:
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the collateral's revocation list and the quote's PCK certificate have different CAs",
            hint="use the collateral of the platform that made the quote",
        )


def require_pck_root(pck_chain: bytes, root_ca: bytes) -> tuple[bytes, ...]:
    """Return a quote's PCK certificate, its CA and the root, DER.

    ``pck_chain`` is PEM, and must end in ``root_ca``, DER. No signature is verified. Raises
    ``QuoteRefusedError``.
    """
    pck = read_chain(pck_chain.decode("latin-1"), "the quote's certificate chain")
    _require_end(pck, _PCK_CHAIN, root_ca, "the quote's certificate chain")
    return pck


@functools.lru_cache(maxsize=64)
def require_collateral_roots(collateral: Collateral, root_ca: bytes) -> bytes:
    """Return the CA that issued the PCK revocation list, DER. All chains must end in ``root_ca``.

    No signature is verified. Raises ``QuoteRefusedError``.
    """
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


_HALF = 32  # bytes of r, and of s, on P-256


def require_vendor_root(root_ca: bytes) -> None:
    """Raise ``ConfigurationRefusedError`` unless ``root_ca``, DER, is a self-signed root."""
    try:
        root = x509.load_der_x509_certificate(root_ca)
        root.verify_directly_issued_by(root)
        _p256(root)
    except Exception:  # noqa: BLE001 - see the head of this file
        raise ConfigurationRefusedError(
            "the root certificate of the platform's vendor is not a self-signed P-256 root",
            hint="use the DER of such a root, for example of Intel's SGX root",
        ) from None


# Only verified chains are cached. A vendor has issued each of them to a machine, so forged chains
# take no memory.
@functools.lru_cache(maxsize=1024)
def issued_pck_chain(pck_chain: bytes, root_ca: bytes) -> tuple[bytes, ...]:
    """Return the PCK certificate, its CA and the root, DER. Each is signed by the next.

    ``pck_chain`` is PEM. Raises ``QuoteRefusedError`` unless the chain ends in ``root_ca``, DER.
    """
    chain = require_pck_root(pck_chain, root_ca)
    try:
        _require_issued(chain[0], chain[1])
        _require_authorities(chain[1:])
    except Exception:  # noqa: BLE001 - see the head of this file
        raise refusal(QuoteProblem.CHAIN) from None
    return chain


@functools.lru_cache(maxsize=64)
def require_signed(collateral: Collateral) -> None:
    """Raise ``QuoteRefusedError`` unless each part of ``collateral`` is signed under its chain.

    The signatures in the chains are verified, too. But only ``require_collateral_roots`` compares
    their roots with the pinned root.
    """
    try:
        pck_ca, root = _of_vendor(collateral.pck_crl_issuer_chain)
        tcb_signer, _ = _of_vendor(collateral.tcb_info_issuer_chain)
        qe_signer, _ = _of_vendor(collateral.qe_identity_issuer_chain)
        _require_role(pck_ca, authority=True)
        _require_role(tcb_signer, authority=False)
        _require_role(qe_signer, authority=False)
        _require_list(collateral.root_ca_crl, root)
        _require_list(collateral.pck_crl, pck_ca)
    except Exception:  # noqa: BLE001 - see the head of this file
        raise refusal(QuoteProblem.CHAIN) from None
    try:
        _require_document(collateral.tcb_info, collateral.tcb_info_signature, tcb_signer)
        _require_document(collateral.qe_identity, collateral.qe_identity_signature, qe_signer)
    except Exception:  # noqa: BLE001 - see the head of this file
        raise refusal(QuoteProblem.SIGNATURE) from None


def _of_vendor(pem: str) -> tuple[x509.Certificate, x509.Certificate]:
    """Return the two certificates of the chain ``pem``: an authority or signer, and its root.

    Raises an exception of any kind unless the root signed the first certificate.
    """
    child, root = read_chain(pem, "a chain")
    _require_authorities((child, root))
    return x509.load_der_x509_certificate(child), x509.load_der_x509_certificate(root)


def _require_authorities(chain: tuple[bytes, ...]) -> None:
    for child, issuer in itertools.pairwise(chain):
        _require_known_issued(child, issuer)


def _require_issued(child: bytes, issuer: bytes) -> None:
    parent = x509.load_der_x509_certificate(issuer)
    x509.load_der_x509_certificate(child).verify_directly_issued_by(parent)


_require_known_issued = functools.lru_cache(maxsize=64)(_require_issued)
"""Cached, because many chains and bundles share the vendor's few authorities and signers."""


def _require_role(certificate: x509.Certificate, *, authority: bool) -> None:
    """Raise ``InvalidSignature`` unless ``certificate`` is, or is not, a CA certificate.

    ``authority``: True requires a CA certificate, and False a certificate of a signer, which must
    not be a CA. So no CA signs documents, and no signer of documents signs revocation lists.
    """
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    if constraints.ca is not authority:
        raise InvalidSignature


def _require_list(der: bytes, issuer: x509.Certificate) -> None:
    revoked = x509.load_der_x509_crl(der)
    if revoked.issuer != issuer.subject or not revoked.is_signature_valid(_p256(issuer)):
        raise InvalidSignature


def _require_document(text: str, signature: bytes, signer: x509.Certificate) -> None:
    r = int.from_bytes(signature[:_HALF], "big")
    s = int.from_bytes(signature[_HALF:], "big")
    _p256(signer).verify(encode_dss_signature(r, s), text.encode(), ec.ECDSA(hashes.SHA256()))


def _p256(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise TypeError("the signer's certificate has no P-256 key")
    return key
