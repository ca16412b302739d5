"""Certificates that a stranger can sign and that a library refuses, for different reasons."""

from collections.abc import Iterator

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["odd_certificates"]

_CHANGES = {
    "of version 2": ("a003020102", "a003020101"),
    "of version 9": ("a003020102", "a003020108"),
    "an unknown curve": ("06082a8648ce3d030107", "06082a8648ce3d030106"),
    "an unknown kind of key": ("06072a8648ce3d0201", "06072a8648ce3d0209"),
    "an extension twice": ("0603551d11", "0603551d13"),
    "a name of an unknown kind": ("3003820161", "3003a30130"),
}
"""Replacements in the signed part, in hex, of equal lengths."""


def odd_certificates(
    certificate: x509.Certificate, signer: ec.EllipticCurvePrivateKey
) -> Iterator[tuple[str, bytes]]:
    """Yield changes and the changed ``certificate`` (DER), signed again by ``signer`` (P-256)."""
    plain = _with_one_name(certificate, signer)
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")  # ECDSA with SHA-256
    for what, (old, new) in _CHANGES.items():
        signed = plain.tbs_certificate_bytes
        assert bytes.fromhex(old) in signed, what
        signed = signed.replace(bytes.fromhex(old), bytes.fromhex(new))
        signature = signer.sign(signed, ec.ECDSA(SHA256()))
        yield what, _value(0x30, signed + algorithm + _value(3, b"\0" + signature))


def _with_one_name(
    certificate: x509.Certificate, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    builder = x509.CertificateBuilder(
        subject_name=certificate.subject,
        issuer_name=certificate.issuer,
        public_key=certificate.public_key(),
        serial_number=certificate.serial_number,
        not_valid_before=certificate.not_valid_before_utc,
        not_valid_after=certificate.not_valid_after_utc,
    )
    for one in certificate.extensions:
        if one.oid != x509.SubjectAlternativeName.oid:
            builder = builder.add_extension(one.value, critical=one.critical)
    names = x509.SubjectAlternativeName([x509.DNSName("a")])
    return builder.add_extension(names, critical=False).sign(signer, SHA256())


def _value(tag: int, content: bytes) -> bytes:
    size = len(content)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, *([size] if size < 128 else [0x80 + len(long), *long])]) + content
