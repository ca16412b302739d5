"""Reads the marble type from a certificate.

TLS has verified that the certificate leads to the marble root. This does not prove the type: a
secret of the manifest may be a CA. Anyone with the key of such a CA can write any type into a
certificate. Only the coordinator has the key of the marble root, and the coordinator verifies the
type before it signs.
"""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

_TYPE: Final = x509.ObjectIdentifier("1.3.9903.2.1")


def marble_type(certificate: bytes, marble_root: str) -> str:
    """Return the marble type in ``certificate`` (DER), or "" without a type.

    "" also if ``marble_root`` (PEM) did not sign the certificate directly.
    """
    leaf = x509.load_der_x509_certificate(certificate)
    try:
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(marble_root.encode()))
        return leaf.extensions.get_extension_for_oid(_TYPE).value.public_bytes().decode()
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return ""
