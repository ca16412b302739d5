"""Creates the key usage extension of a certificate from names of usages (RFC 5280, 4.2.1.3)."""

from typing import Final

from cryptography import x509

KEY_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
"""Names of the usages in ``cryptography``, in the order of the bits."""


def key_usage(*usages: str) -> x509.KeyUsage:
    """Return the X.509 extension KeyUsage with exactly the named ``usages``, and no further."""
    return x509.KeyUsage(**{name: name in usages for name in KEY_USAGES})
