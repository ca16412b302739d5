"""Explain files that do not contain the expected PEM block (RFC 7468).

The explanation reads only labels and the first bytes of a file. A message never contains a part of
a key.
"""

import re
from typing import Final

import msgspec

_LABEL: Final = re.compile(rb"^-----BEGIN ([A-Z0-9 ]{1,40})-----", re.MULTILINE)


_CERTIFICATES: Final = frozenset({"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"})


_REQUESTS: Final = frozenset({"CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"})


_SEQUENCE: Final = b"\x30"  # the first byte of a DER certificate or key (X.690, 8.9)


_PKCS12: Final = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x80|\x81.|\x82..|\x83...)\x02\x01\x03", re.DOTALL
)


class PemFault(msgspec.Struct, frozen=True):
    """The fault of a file. ``problem`` continues a sentence that begins with the file's name."""

    problem: str
    hint: str


def is_encrypted(pem: bytes) -> bool:
    """Return whether the private key in ``pem`` is encrypted."""
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in pem or b"Proc-Type: 4,ENCRYPTED" in pem


def certificate_fault(content: bytes) -> PemFault:
    """Return the reason why ``content`` yields no certificate."""
    labels = _labels(content)
    if labels & _CERTIFICATES:
        return PemFault(
            "holds a damaged PEM certificate", "copy the certificate again, from BEGIN to END"
        )
    if _holds_key(labels):
        return PemFault(
            "holds a private key, not a certificate", "pass the PEM file of the certificate"
        )
    if labels & _REQUESTS:
        return PemFault(
            "holds a certificate signing request, not a certificate",
            "pass the certificate that was issued for this request",
        )
    return _no_pem(content, labels, "certificate", "x509 -inform DER")


def key_fault(content: bytes) -> PemFault:
    """Return the reason why ``content`` yields no private key."""
    labels = _labels(content)
    if "OPENSSH PRIVATE KEY" in labels:
        return PemFault(
            "holds an OpenSSH key, not a PEM private key",
            "make another key for Keyhouse: openssl genpkey",
        )
    if _holds_key(labels):
        return PemFault("holds a damaged PEM private key", "copy the key again, from BEGIN to END")
    if labels & _CERTIFICATES:
        return PemFault(
            "holds a certificate, not a private key", "pass the PEM file of the private key"
        )
    if any(label.endswith("PUBLIC KEY") for label in labels):
        return PemFault(
            "holds a public key, not a private key", "pass the PEM file of the private key"
        )
    return _no_pem(content, labels, "private key", "pkey -inform DER")


def _labels(content: bytes) -> frozenset[str]:
    return frozenset(label.decode("ascii") for label in _LABEL.findall(content))


def _holds_key(labels: frozenset[str]) -> bool:
    return any(label.endswith("PRIVATE KEY") for label in labels)


def _no_pem(content: bytes, labels: frozenset[str], what: str, conversion: str) -> PemFault:
    if not content.strip():
        return PemFault("is empty", f"pass the PEM file of the {what}")
    if labels:
        return PemFault(f"holds {min(labels)}, not a {what}", f"pass the PEM file of the {what}")
    if _PKCS12.match(content):
        return PemFault(
            "is a PKCS #12 file, not PEM",
            "pass a user's file as --pkcs12 FILE; convert any other file: openssl pkcs12 -in FILE"
            " -out NEW.pem",
        )
    if content.startswith(_SEQUENCE):
        return PemFault(
            "is DER, not PEM", f"convert the file: openssl {conversion} -in FILE -out NEW.pem"
        )
    label = what.upper()
    return PemFault(
        f"does not hold a PEM {what}", f"pass a file with a line -----BEGIN {label}-----"
    )
