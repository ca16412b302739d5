"""Verifies signatures before the quote library parses the signed bytes.

A panic in the quote library aborts the whole process, and Python cannot catch it. So the library's
parsers must never see unauthenticated certificates, lists or documents. This module verifies their
signatures up to the pinned root. The library then repeats these checks and makes all others. A
successful check here accepts nothing.

The exceptions of a parser for hostile bytes vary and may contain the bytes. So every exception
becomes a refusal with our own text.
"""

import functools
import itertools

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.chain import read_chain, require_pck_root
from keyhouse.attestation.errors import ConfigurationRefusedError, QuoteProblem, refusal

_HALF = 32  # bytes of r, and of s, on P-256


def require_vendor_root(root_ca: bytes) -> None:
    """Raise ``ConfigurationRefusedError`` unless ``root_ca``, DER, is a self-signed root."""
    try:
        root = x509.load_der_x509_certificate(root_ca)
        root.verify_directly_issued_by(root)
        _p256(root)
    except Exception:  # noqa: BLE001 - see the head of this file
        raise ConfigurationRefusedError(
            "the platform vendor's root certificate cannot be used",
            hint="use the DER of a self-signed P-256 root, such as Intel's SGX root",
        ) from None


# Only verified chains are cached. A vendor has issued each of them to a machine, so forged chains
# take no memory.
@functools.lru_cache(maxsize=1024)
def issued_pck_chain(pck_chain: bytes, root_ca: bytes) -> tuple[bytes, ...]:
    """Return PCK certificate, its CA and the root, DER. Each is signed by the next.

    ``pck_chain`` is PEM. Raises ``QuoteRefusedError`` unless it ends in ``root_ca``, DER.
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
    """Raise ``QuoteRefusedError`` unless each part of ``collateral`` is signed by its chain."""
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
    """Return the certificate of an authority or signer, and the root that issued it."""
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
    """Raise ``InvalidSignature`` unless the certificate is an authority, as ``authority`` states.

    So an authority signs no document, and a signer of documents signs no revocation list.
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
