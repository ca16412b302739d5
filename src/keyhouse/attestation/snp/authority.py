"""AMD's authorities: a pinned root (ARK) of each line of processors, and what it issued.

The root signs the intermediate (ASK, or ASVK for VLEK) and the revocation list. All signatures are
RSASSA-PSS with SHA-384 by keys of 4,096 bits.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, refusal

Roots = Mapping[str, bytes]
"""The pinned root of each line of processors, DER, by the line's name."""

_BITS = 4096
_SALT = 48
_NAMES = {"VCEK": "SEV-{}", "VLEK": "SEV-VLEK-{}"}


class Authority:
    """An intermediate authority that the root of ``product`` issued."""

    def __init__(self, product: str, root: x509.Certificate, issuer: x509.Certificate) -> None:
        self.product = product
        self.root = root
        self.issuer = issuer

    def require_at(self, at: datetime) -> None:
        """Raise ``QuoteRefusedError`` unless both certificates are in their time."""
        for each in (self.root, self.issuer):
            if at > each.not_valid_after_utc:
                raise refusal(QuoteProblem.EXPIRED)
            if at < each.not_valid_before_utc:
                raise refusal(QuoteProblem.NOT_YET_VALID)


def find_authority(
    name: bytes, signing_key: str, candidates: Iterable[bytes], roots: Roots
) -> Authority:
    """Return the one of ``candidates`` (DER) with the subject ``name`` that a root has issued.

    Raises ``QuoteRefusedError`` if there is none.
    """
    for candidate in candidates:
        certificate = _certificate(candidate, name)
        if certificate is None:
            continue
        for product, der in roots.items():
            root = x509.load_der_x509_certificate(der)
            if _is_authority(certificate, root, _NAMES[signing_key].format(product)):
                return Authority(product, root, certificate)
    raise QuoteRefusedError(
        QuoteProblem.CHAIN,
        "the quote does not verify: its certificates do not lead to a pinned root of AMD",
        hint="put the cert_chain of its line of processors among the files of AMD's collateral",
    )


def require_issued(signed: bytes, signature: bytes, issuer: x509.Certificate) -> None:
    """Raise an exception of no fixed kind unless ``issuer`` signed these bytes."""
    key = issuer.public_key()
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size != _BITS:
        raise TypeError("no RSA key of 4,096 bits")
    scheme = padding.PSS(padding.MGF1(hashes.SHA384()), _SALT)
    key.verify(signature, signed, scheme, hashes.SHA384())


def newest_list(
    lists: Iterable[bytes], authority: Authority, at: datetime
) -> x509.CertificateRevocationList:
    """Return the newest of ``lists`` (DER) that the root signed; it is in its time.

    It does not revoke the authority. Raises ``QuoteRefusedError``.
    """
    newest = _newest_of(lists, authority.root)
    if newest is None:
        raise QuoteRefusedError(
            QuoteProblem.COLLATERAL,
            f"the quote does not verify: there is no revocation list of AMD for"
            f" {authority.product}",
            hint="fetch it from AMD's key distribution service, and name it in --amd-collateral",
        )
    ends = newest.next_update_utc
    if ends is None or at > ends:
        raise refusal(QuoteProblem.EXPIRED)
    if at < newest.last_update_utc:
        raise refusal(QuoteProblem.NOT_YET_VALID)
    serial = authority.issuer.serial_number
    if newest.get_revoked_certificate_by_serial_number(serial) is not None:
        raise refusal(QuoteProblem.REVOKED)
    return newest


def end_of_lists(lists: Iterable[bytes], roots: Roots) -> datetime | None:
    """Return when the first of the lists in use ends, UTC: of each root the newest it signed."""
    given = tuple(lists)
    newest = (_newest_of(given, x509.load_der_x509_certificate(der)) for der in roots.values())
    ends = (each.next_update_utc for each in newest if each is not None)
    return min((end for end in ends if end is not None), default=None)


def _newest_of(
    lists: Iterable[bytes], root: x509.Certificate
) -> x509.CertificateRevocationList | None:
    read = [each for each in map(_list, lists) if each is not None]  # an empty list is false
    found = [each for each in read if _is_list_of(each, root)]
    return max(found, key=lambda each: each.last_update_utc, default=None)


def _certificate(der: bytes, name: bytes) -> x509.Certificate | None:
    """Return the certificate with the subject ``name`` that ``der`` is; None for other bytes."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        # Its names are read when they are asked for, and may be no names.
        return certificate if certificate.subject.public_bytes() == name else None
    # Bytes that are not authenticated: what a parser raises differs from case to case.
    except Exception:  # noqa: BLE001
        return None


def _is_authority(certificate: x509.Certificate, root: x509.Certificate, name: str) -> bool:
    try:
        (common_name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        named = common_name.value == name and certificate.issuer == root.subject
        if not (named and constraints.value.ca and _is_pss(certificate.signature_algorithm_oid)):
            return False
        require_issued(certificate.tbs_certificate_bytes, certificate.signature, root)
    except Exception:  # noqa: BLE001 - see above
        return False
    return True


def _list(der: bytes) -> x509.CertificateRevocationList | None:
    try:
        return x509.load_der_x509_crl(der)
    except Exception:  # noqa: BLE001 - see above
        return None


def _is_list_of(revoked: x509.CertificateRevocationList, root: x509.Certificate) -> bool:
    try:
        if revoked.issuer != root.subject or not _is_pss(revoked.signature_algorithm_oid):
            return False
        require_issued(revoked.tbs_certlist_bytes, revoked.signature, root)
    except Exception:  # noqa: BLE001 - see above
        return False
    return True


def _is_pss(algorithm: x509.ObjectIdentifier) -> bool:
    return algorithm == x509.SignatureAlgorithmOID.RSASSA_PSS
