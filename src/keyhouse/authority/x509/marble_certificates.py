"""The certificate of a workload: issued at activations and renewals, read in later requests.

Source: the interface of MarbleRun, sections "The marble certificate" of the workload API and
"Authentication and permissions" of the messages. The page docs/reference/activations.md describes
the certificate.
"""

import hashlib
import warnings
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from keyhouse.authority.keys import (
    CoordinatorKeys,
    StoredSecret,
    certificate_of,
    generate_key,
    private_key_of,
    sign_marble_certificate,
    signature_hash,
)
from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.x509.ca import LIFETIME
from keyhouse.authority.x509.fields import (
    LINEAGE,
    MARBLE_TYPE,
    key_identifier,
    random_serial,
    whole_second,
)
from keyhouse.authority.x509.host_names import read_address
from keyhouse.authority.x509.signing_request import SigningRequest
from keyhouse.base.byte_reader import element, unsigned
from keyhouse.base.secret import Secret
from keyhouse.wire.lineage import LINEAGE_DER, LineageFacts, read_lineage
from keyhouse.wire.workload_api import MARBLE_TYPE_DER

_UTC_TIME: Final = 0x17  # X.690: tag of UTCTime
_GENERALIZED_TIME: Final = 0x18  # X.690: tag of GeneralizedTime
_LAST_UTC_YEAR: Final = 2049  # RFC 5280, 4.1.2.5
_CRITICAL: Final = bytes.fromhex("0101ff")
_LARGEST: Final = 32 * 1024  # bytes; the certificate for the largest request is smaller

_SEQUENCE: Final = 0x30  # X.690: tag of a SEQUENCE
_BIT_STRING: Final = 0x03  # X.690: tag of a BIT STRING
_DNS_NAME: Final = 0x82  # [2] and [7] of GeneralName, RFC 5280 4.2.1.6
_IP_ADDRESS: Final = 0x87  # RFC 5280, 4.2.1.6: iPAddress, context tag 7
_VERSION_3: Final = bytes.fromhex("a003020102")
_EXTENSIONS: Final = 0xA3  # RFC 5280, 4.1: context tag 3 of a certificate

_ALGORITHMS: Final[dict[str, bytes]] = {  # ecdsa-with-SHA256, ecdsa-with-SHA384
    "P-256": bytes.fromhex("300a06082a8648ce3d040302"),
    "P-384": bytes.fromhex("300a06082a8648ce3d040303"),
}
_KEY_USAGE: Final = bytes.fromhex("0603551d0f")
_EXTENDED_USAGE: Final = bytes.fromhex("0603551d25")
_BASIC_CONSTRAINTS: Final = bytes.fromhex("0603551d13")
_AUTHORITY_KEY: Final = bytes.fromhex("0603551d23")
_ALTERNATIVE_NAMES: Final = bytes.fromhex("0603551d11")

_NO_CA: Final = bytes.fromhex("3000")
_USAGES: Final = bytes.fromhex("03020388")  # digitalSignature, keyAgreement
_CLIENT_AND_SERVER: Final = bytes.fromhex("301406082b0601050507030106082b06010505070302")


def issue_marble_certificate(
    keys: CoordinatorKeys,
    request: SigningRequest,
    *,
    marble: UUID,
    marble_type: str,
    now: datetime,
    lifetime: timedelta = LIFETIME,
    lineage: LineageFacts | None = None,
) -> StoredSecret:
    """Return a new key with a certificate for the workload ``marble`` of type ``marble_type``.

    ``request`` has the names for the certificate. A ``lifetime`` over ``LIFETIME``, the lifetime of
    the issuer, is shortened. ``lineage``: None for a marble type without renewals.

    The certificate verifies against the marble root, and against the root by way of the
    intermediate. The marble type is in an extension as plain UTF-8, without ASN.1.

    This function encodes the certificate from checked or constant parts. The library's builder
    would take as long as the rest of an activation.
    """
    key = generate_key(keys.curve)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    end = whole_second(now) + min(lifetime, LIFETIME)
    leaf = MarbleLeaf(marble, marble_type, public, lineage)
    return StoredSecret(
        private=Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        public=Secret(public),
        cert=certify_marble(keys, request, leaf, now=now, end=end),
    )


class MarbleLeaf(msgspec.Struct, frozen=True):
    """The subject of a new certificate: a workload, its public key and its lineage."""

    marble: UUID
    marble_type: str
    public: bytes  # SubjectPublicKeyInfo, DER
    lineage: LineageFacts | None


_SKEW: Final = timedelta(minutes=5)
"""The maximum difference between clocks of workloads for which new certificates are valid."""


def certify_marble(
    keys: CoordinatorKeys,
    request: SigningRequest,
    leaf: MarbleLeaf,
    *,
    now: datetime,
    end: datetime,
) -> bytes:
    """Return a certificate (DER) for ``leaf`` (its subject), with the names in ``request``.

    Valid until ``end``, in whole seconds. A certificate with a lineage has a short lifetime, and
    clocks of workloads differ. So its validity begins before ``now``: by five minutes, or by a
    tenth of the lifetime if that is less.
    """
    start = whole_second(now)
    if leaf.lineage is not None:
        start = whole_second(now - min(_SKEW, (end - start) / 10))
    times = element(_SEQUENCE, time(start), time(end))
    to_be_signed = _to_be_signed(keys, request, leaf, times)
    signature = sign_marble_certificate(
        to_be_signed, private_key_of(keys.intermediate_key), signature_hash(keys.curve)
    )
    signed = element(_BIT_STRING, b"\0", signature)
    return element(_SEQUENCE, to_be_signed, _ALGORITHMS[keys.curve], signed)


def _to_be_signed(
    keys: CoordinatorKeys, request: SigningRequest, leaf: MarbleLeaf, times: bytes
) -> bytes:
    issuer, constant = _issuer(keys.marble_root_cert)
    common_name = x509.NameAttribute(NameOID.COMMON_NAME, str(leaf.marble))
    subject = x509.Name([*request.subject, common_name])
    names = _alternative_names(request) if request.names else b""
    lineage = b"" if leaf.lineage is None else extension(LINEAGE_DER, leaf.lineage.encode())
    marble_type = extension(MARBLE_TYPE_DER, leaf.marble_type.encode())
    extensions = (constant, marble_type, names, lineage)
    return element(
        _SEQUENCE,
        _VERSION_3,
        unsigned(random_serial()),
        _ALGORITHMS[keys.curve],
        issuer,
        times,
        subject.public_bytes(),
        leaf.public,
        element(_EXTENSIONS, element(_SEQUENCE, *extensions)),
    )


class MarbleIdentity(msgspec.Struct, frozen=True):
    """The marble type, UUID and lineage in a marble certificate."""

    marble_type: str
    uuid: str  # 36 characters, lower case
    start: datetime  # UTC
    end: datetime
    key: bytes  # SHA-256 of the public key (SubjectPublicKeyInfo, DER)
    lineage: LineageFacts | None = None  # None: the type had no renewals

    def is_valid(self, now: datetime) -> bool:
        """Return whether the certificate is valid at ``now``."""
        return self.start <= now <= self.end


def read_marble_certificate(der: bytes, marble_root: bytes) -> MarbleIdentity | None:
    """Return the workload in the certificate ``der``; None if ``marble_root`` did not issue it.

    A certificate from before an update of the manifest has a different marble root. The time is not
    checked. The first call verifies the signature; later calls use a cache.
    """
    return _read(der, marble_root) if len(der) <= _LARGEST else None


class ClaimedLineage(msgspec.Struct, frozen=True):
    """The lineage and the issuer that a certificate claims, and a hash of its key."""

    key: bytes  # SHA-256 of the public key (SubjectPublicKeyInfo, DER)
    id: bytes
    issuer: bytes  # key identifier of the issuer; empty: not stated

    def names_issuer(self, marble_root: bytes) -> bool:
        """Return whether the claimed issuer is ``marble_root``. No signature proves this."""
        return self.issuer == _key_identifier(marble_root)


def read_claimed_lineage(der: bytes) -> ClaimedLineage | None:
    """Return the lineage that the certificate ``der`` claims; None: no lineage, or invalid bytes.

    No signature is verified. The TLS handshake proves the key of the certificate, but nothing
    proves the claims. The caller compares this key with the key of the lineage in the journal. All
    calls of a connection read the same certificate, so later calls use a cache.
    """
    return _read_claim(der) if len(der) <= _LARGEST else None


@lru_cache(maxsize=512)
def _read_claim(der: bytes) -> ClaimedLineage | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = x509.load_der_x509_certificate(der)
            extensions = certificate.extensions
            lineage = _lineage(extensions)
            key = key_hash(certificate.public_key())
    except LIBRARY_REFUSALS:
        return None
    return None if lineage is None else ClaimedLineage(key, lineage.id, _issuer_key(extensions))


_ALL_BITS: Final = b"\0"


@lru_cache(maxsize=512)
def _read(der: bytes, marble_root: bytes) -> MarbleIdentity | None:
    try:
        # Anonymous clients could otherwise fill the log with warnings.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = x509.load_der_x509_certificate(der)
        certificate.verify_directly_issued_by(certificate_of(marble_root))
        extensions = certificate.extensions
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        marble_type = extensions.get_extension_for_oid(MARBLE_TYPE).value.public_bytes().decode()
        (common_name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        uuid = UUID(str(common_name.value))
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        key = key_hash(certificate.public_key())
        lineage = _lineage(extensions)
    except (*LIBRARY_REFUSALS, InvalidSignature, x509.ExtensionNotFound):
        return None
    if ExtendedKeyUsageOID.SERVER_AUTH not in usages or not marble_type:
        return None
    # The library also accepts a signature with unused bits if these are zero: different bytes with
    # the same signature. Here a certificate must be exactly one sequence of bytes.
    if not der.endswith(_ALL_BITS + certificate.signature):
        return None
    times = start.astimezone(UTC), end.astimezone(UTC)
    return MarbleIdentity(marble_type, str(uuid), *times, key, lineage)


def _lineage(extensions: x509.Extensions) -> LineageFacts | None:
    for each in extensions:
        if each.oid == LINEAGE:
            return read_lineage(each.value.public_bytes())
    return None


def _issuer_key(extensions: x509.Extensions) -> bytes:
    for each in extensions:
        if isinstance(each.value, x509.AuthorityKeyIdentifier):
            return each.value.key_identifier or b""
    return b""


def key_hash(public_key: CertificatePublicKeyTypes) -> bytes:
    """Return the SHA-256 of a public key (SubjectPublicKeyInfo, DER)."""
    encoded = public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).digest()


@lru_cache(maxsize=4)
def _key_identifier(marble_root: bytes) -> bytes:
    return key_identifier(certificate_of(marble_root).public_key())


@lru_cache(maxsize=4)
def _issuer(marble_root: bytes) -> tuple[bytes, bytes]:
    """Return the name of the issuer ``marble_root``, and the constant extensions, both in DER.

    These extensions are equal in all certificates of the issuer.
    """
    certificate = certificate_of(marble_root)
    authority = x509.AuthorityKeyIdentifier(
        _key_identifier(marble_root),
        authority_cert_issuer=None,
        authority_cert_serial_number=None,
    )
    constant = (
        extension(_KEY_USAGE, _USAGES, critical=True),
        extension(_EXTENDED_USAGE, _CLIENT_AND_SERVER),
        extension(_BASIC_CONSTRAINTS, _NO_CA, critical=True),
        extension(_AUTHORITY_KEY, authority.public_bytes()),
    )
    return certificate.subject.public_bytes(), b"".join(constant)


def _alternative_names(request: SigningRequest) -> bytes:
    names = [element(_DNS_NAME, name.encode("ascii")) for name in request.dns_names]
    names += [element(_IP_ADDRESS, read_address(text).packed) for text in request.ip_addresses]
    return extension(_ALTERNATIVE_NAMES, element(_SEQUENCE, *names))


@lru_cache(maxsize=16)  # cached: hundreds of certificates begin, and end, in the same second
def time(moment: datetime) -> bytes:
    """Return a whole second (UTC) in DER: UTCTime up to 2049, later GeneralizedTime."""
    if moment.year <= _LAST_UTC_YEAR:
        return element(_UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())
    return element(_GENERALIZED_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())


def extension(oid: bytes, value: bytes, *, critical: bool = False) -> bytes:
    """Return an extension in DER. ``oid`` is its encoded identifier, ``value`` its content."""
    return element(0x30, oid, _CRITICAL if critical else b"", element(0x04, value))
