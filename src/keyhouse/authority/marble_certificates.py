"""The certificate of a workload: issued at each activation, and read when the workload calls.

Source: workload API, "The marble certificate"; wire reference, "Authentication and permissions".
"""

import warnings
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from keyhouse.authority.ca import LIFETIME
from keyhouse.authority.coordinator_keys import CoordinatorKeys, certificate_of, private_key_of
from keyhouse.authority.curve import generate_key, signature_hash
from keyhouse.authority.findings import LIBRARY_REFUSALS
from keyhouse.authority.ip_address import read_address
from keyhouse.authority.oid import MARBLE_TYPE
from keyhouse.authority.serial import random_serial
from keyhouse.authority.signing import sign_certificate
from keyhouse.authority.signing_request import SigningRequest
from keyhouse.authority.stored import StoredSecret
from keyhouse.authority.subject_key import key_identifier
from keyhouse.authority.validity import whole_second
from keyhouse.wire.secret import Secret

__all__ = ["MarbleIdentity", "issue_marble_certificate", "read_marble_certificate"]

_LARGEST: Final = 32 * 1024  # bytes; a request of the largest size gives less

_CONSTRAINTS: Final = x509.BasicConstraints(ca=False, path_length=None)
_USAGES: Final = x509.ExtendedKeyUsage(
    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
)
_KEY_USAGE: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=True,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def issue_marble_certificate(
    keys: CoordinatorKeys, request: SigningRequest, *, marble: UUID, marble_type: str, now: datetime
) -> StoredSecret:
    """Return a fresh key with the certificate that names the workload and its type.

    It verifies against the marble root, and against the root by way of the intermediate. The type
    stands in its extension as plain UTF-8, without any ASN.1 around it.
    """
    key = generate_key(keys.curve)
    public_key, start = key.public_key(), whole_second(now)
    issuer, authority = _issuer(keys.marble_root_cert)
    common_name = x509.NameAttribute(NameOID.COMMON_NAME, str(marble))
    builder = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(x509.Name([*request.subject, common_name]))
        .public_key(public_key)
        .serial_number(random_serial())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(_USAGES, critical=False)
        .add_extension(_CONSTRAINTS, critical=True)
        .add_extension(authority, critical=False)
        .add_extension(
            x509.UnrecognizedExtension(MARBLE_TYPE, marble_type.encode()), critical=False
        )
    )
    if request.names:
        builder = builder.add_extension(_alternative_names(request), critical=False)
    private = private_key_of(keys.intermediate_key)
    return StoredSecret(
        private=Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        public=Secret(public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        cert=sign_certificate(builder, private, signature_hash(keys.curve)),
    )


class MarbleIdentity(msgspec.Struct, frozen=True):
    """Who a marble certificate says it is of."""

    marble_type: str
    uuid: str  # 36 characters, lower case
    start: datetime  # UTC
    end: datetime

    def is_valid(self, now: datetime) -> bool:
        """Tell whether ``now`` is in the certificate's time."""
        return self.start <= now <= self.end


def read_marble_certificate(der: bytes, marble_root: bytes) -> MarbleIdentity | None:
    """Return which workload's certificate ``der`` is; None unless ``marble_root`` issued it to one.

    One from before an update of the manifest is of another marble root. The time is not looked at.
    Costs a signature at first, then nothing.
    """
    return _read(der, marble_root) if len(der) <= _LARGEST else None


@lru_cache(maxsize=512)
def _read(der: bytes, marble_root: bytes) -> MarbleIdentity | None:
    try:
        with warnings.catch_warnings():  # the library warns of what strangers may send
            warnings.simplefilter("ignore")
            certificate = x509.load_der_x509_certificate(der)
        certificate.verify_directly_issued_by(certificate_of(marble_root))
        extensions = certificate.extensions
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        marble_type = extensions.get_extension_for_oid(MARBLE_TYPE).value.public_bytes().decode()
        (common_name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        uuid = UUID(str(common_name.value))
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (*LIBRARY_REFUSALS, InvalidSignature, x509.ExtensionNotFound):
        return None
    if ExtendedKeyUsageOID.SERVER_AUTH not in usages or not marble_type:
        return None
    return MarbleIdentity(marble_type, str(uuid), start.astimezone(UTC), end.astimezone(UTC))


@lru_cache(maxsize=4)
def _issuer(marble_root: bytes) -> tuple[x509.Name, x509.AuthorityKeyIdentifier]:
    certificate = certificate_of(marble_root)
    authority = x509.AuthorityKeyIdentifier(
        key_identifier(certificate.public_key()),
        authority_cert_issuer=None,
        authority_cert_serial_number=None,
    )
    return certificate.subject, authority


def _alternative_names(request: SigningRequest) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [
            *(x509.DNSName(name) for name in request.dns_names),
            *(x509.IPAddress(read_address(address)) for address in request.ip_addresses),
        ]
    )
