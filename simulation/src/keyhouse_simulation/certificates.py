"""The certificates and revocation lists of a simulated vendor, in the form of Intel's."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from keyhouse.base.byte_reader import element, unsigned
from keyhouse.base.key_usages import key_usage
from keyhouse_simulation.parameters import Lists, Pck

_SGX = "1.2.840.113741.1.13.1"
_SGX_DER = bytes.fromhex("2a864886f84d010d01")
_SEQUENCE, _OCTETS, _OBJECT_ID, _ENUMERATED = 0x30, 0x04, 0x06, 0x0A
_LIFETIME = timedelta(days=30 * 365)


def issue_authority(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[str, ec.EllipticCurvePrivateKey],
    start: datetime,
) -> x509.Certificate:
    """Return the certificate of a CA, valid for 30 years. With equal names it is self-signed."""
    return _builder(name, key, issuer, start, is_ca=True).sign(issuer[1], hashes.SHA256())


def issue_leaf(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[str, ec.EllipticCurvePrivateKey],
    start: datetime,
    extension: bytes = b"",
    names: Sequence[x509.GeneralName] = (),
) -> x509.Certificate:
    """Return a certificate that signs but does not issue certificates.

    ``extension`` is Intel's extension (DER). ``names`` are the alternative names of a server.
    """
    builder = _builder(name, key, issuer, start, is_ca=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if extension:
        content = x509.UnrecognizedExtension(x509.ObjectIdentifier(_SGX), extension)
        builder = builder.add_extension(content, critical=False)
    return builder.sign(issuer[1], hashes.SHA256())


def issue_list(
    issuer: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    revoked: Sequence[x509.Certificate],
    lists: Lists,
    now: datetime,
) -> x509.CertificateRevocationList:
    """Return the revocation list of ``issuer`` with the certificates ``revoked``."""
    start = now - lists.issued_ago
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(start)
        .next_update(start + lists.valid_for)
        .add_extension(x509.CRLNumber(lists.number), critical=False)
        .add_extension(authority, critical=False)
    )
    for certificate in revoked:
        entry = x509.RevokedCertificateBuilder(certificate.serial_number, start)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(key, hashes.SHA256())


def pck_extension(pck: Pck) -> bytes:
    """Return the SGX extension of a PCK certificate. Source: Intel, "SGX PCK Certificate"."""
    components = [
        _entry(2, place, value=unsigned(svn)) for place, svn in enumerate(pck.cpu_svn, start=1)
    ]
    tcb = element(
        _SEQUENCE,
        *components,
        _entry(2, 17, value=unsigned(pck.pce_svn)),
        _entry(2, 18, value=element(_OCTETS, pck.cpu_svn)),
    )
    return element(
        _SEQUENCE,
        _entry(1, value=element(_OCTETS, pck.ppid)),
        _entry(2, value=tcb),
        _entry(3, value=element(_OCTETS, pck.pce_id)),
        _entry(4, value=element(_OCTETS, pck.fmspc)),
        _entry(5, value=element(_ENUMERATED, b"\0")),
    )


def _entry(*arcs: int, value: bytes) -> bytes:
    """Return the entry at ``arcs``, each below 128, under the extension's identifier."""
    return element(_SEQUENCE, element(_OBJECT_ID, _SGX_DER, bytes(arcs)), value)


def _builder(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[str, ec.EllipticCurvePrivateKey],
    start: datetime,
    *,
    is_ca: bool,
) -> x509.CertificateBuilder:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key())
    subject_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer[0]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(_usage(is_ca=is_ca), critical=True)
        .add_extension(subject_key, critical=False)
        .add_extension(authority, critical=False)
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return key_usage("key_cert_sign", "crl_sign") if is_ca else key_usage("digital_signature")


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
