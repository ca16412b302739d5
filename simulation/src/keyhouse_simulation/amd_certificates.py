"""The certificates and revocation lists of a simulated AMD, in the form of AMD's."""

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from keyhouse.base.byte_reader import element, unsigned
from keyhouse_simulation.parameters import KeyEndorsement

Issuer = tuple[str, rsa.RSAPrivateKey]
"""Common name and key, of 4,096 bits."""

_AMD = "1.3.6.1.4.1.3704.1"
_IA5 = 0x16
_PSS = padding.PSS(padding.MGF1(hashes.SHA384()), 48)


def issue_amd_authority(
    name: str, key: rsa.RSAPublicKey, issuer: Issuer, begins: datetime, ends: datetime
) -> x509.Certificate:
    """Return the certificate of ARK, ASK or ASVK."""
    builder = _builder(name, key, issuer[0], begins, ends).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return builder.sign(issuer[1], hashes.SHA384(), rsa_padding=_PSS)


def issue_endorsement(
    endorsement: KeyEndorsement, key: ec.EllipticCurvePublicKey, issuer: Issuer
) -> x509.Certificate:
    """Return the certificate of a key for reports: VCEK or VLEK."""
    builder = _builder(endorsement.name, key, issuer[0], endorsement.begins, endorsement.ends)
    values = {"1": unsigned(0), "2": element(_IA5, endorsement.product.encode())}
    tcb = endorsement.tcb
    versions = {
        "3.1": tcb.bootloader,
        "3.2": tcb.tee,
        "3.3": tcb.snp,
        "3.8": tcb.microcode,
        "3.9": tcb.fmc,
    }
    values |= {arc: unsigned(version) for arc, version in versions.items() if version is not None}
    if endorsement.chip:
        values["4"] = endorsement.chip
    if endorsement.provider:
        values["5"] = element(_IA5, endorsement.provider.encode())
    for arc, value in values.items():
        extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(f"{_AMD}.{arc}"), value)
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer[1], hashes.SHA384(), rsa_padding=_PSS)


def issue_amd_list(
    issuer: Issuer, revoked: Sequence[x509.Certificate], begins: datetime, ends: datetime
) -> x509.CertificateRevocationList:
    """Return the revocation list of a root with the certificates ``revoked``."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(_name(issuer[0]))
        .last_update(begins)
        .next_update(ends)
        .add_extension(x509.CRLNumber(1), critical=False)
    )
    for certificate in revoked:
        entry = x509.RevokedCertificateBuilder(certificate.serial_number, begins)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(issuer[1], hashes.SHA384(), rsa_padding=_PSS)


def _builder(
    name: str,
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    issuer: str,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Keyhouse Simulation"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
