"""Secrets: their definitions in a manifest, their certificates, and their uploads.

The reader of manifests returns the definitions, and the authority makes secrets from a definition.
The answer of ``GET /api/v2/secrets`` has definitions and values.
"""

from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.base import rsa_keys
from keyhouse.base.hex_repr import Readable
from keyhouse.base.secret import Secret

LARGEST_KEY: Final = 8 * 1024 * 1024
"""Maximum size in bits of a stored symmetric key: 1 MiB."""

LARGEST_DERIVED_KEY: Final = 255 * 32 * 8
"""Maximum size in bits of a symmetric key per marble.

HKDF-SHA256 yields 255 blocks of 32 bytes (RFC 5869, 2.3).
"""

CURVE_SIZES: Final = (224, 256, 384, 521)

_ACRONYMS = frozenset({"ca", "crl", "dns", "ip", "ocsp", "tcb", "tls", "uri", "url"})


def manifest_name(attribute: str) -> str:
    """Return the manifest's spelling of ``attribute``: ``dns_names`` is ``DNSNames``."""
    words = attribute.split("_")
    capitalized = (word.upper() if word in _ACRONYMS else word.capitalize() for word in words)
    return "".join(capitalized).replace("Uris", "URIs")


Oid = tuple[int, ...]
"""An object identifier as its arcs: ``(2, 5, 4, 3)``."""


class SecretType(StrEnum):
    """The kind of a secret (manifest: ``Secrets.<name>.Type``)."""

    SYMMETRIC_KEY = "symmetric-key"
    PLAIN = "plain"
    CERT_RSA = "cert-rsa"
    CERT_ECDSA = "cert-ecdsa"
    CERT_ED25519 = "cert-ed25519"

    @property
    def is_certificate(self) -> bool:
        """True if a value of this type is a key with a certificate."""
        return self.startswith("cert-")


def size_problem(kind: SecretType, size: int, *, shared: bool, user_defined: bool) -> str:
    """Return the problem of ``size`` (bits) for a secret of ``kind``; empty for a valid size.

    ``shared`` and ``user_defined``: as in the manifest. 0 leaves the size of an uploaded
    certificate open. Source: ``docs/reference/manifest.md``, "Secrets".
    """
    if kind is SecretType.PLAIN:
        return ""
    if kind is SecretType.SYMMETRIC_KEY:
        largest = LARGEST_KEY if shared or user_defined else LARGEST_DERIVED_KEY
        fits = 0 < size <= largest and size % 8 == 0
        return "" if fits else f"is {size}, must be a multiple of 8 from 8 to {largest}"
    if user_defined and size == 0:
        return ""
    if kind is SecretType.CERT_ED25519:
        return f"is {size}, must be 0 or left out: Ed25519 has one size" if size else ""
    if kind is SecretType.CERT_RSA:
        least, most = rsa_keys.SMALLEST_GENERATED, rsa_keys.LARGEST
        return "" if least <= size <= most else f"is {size}, must be {least} to {most}"
    return "" if size in CURVE_SIZES else f"is {size}, must be 224, 256, 384 or 521"


class NameAttribute(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """An attribute of a distinguished name: ``{"Type": [2, 5, 4, 12], "Value": "text"}``."""

    type: Oid
    value: str


class Subject(msgspec.Struct, frozen=True, rename=manifest_name):
    """A distinguished name, field by field. ``keyhouse.authority`` decides the order in DER."""

    country: tuple[str, ...] = ()
    organization: tuple[str, ...] = ()
    organizational_unit: tuple[str, ...] = ()
    locality: tuple[str, ...] = ()
    province: tuple[str, ...] = ()
    street_address: tuple[str, ...] = ()
    postal_code: tuple[str, ...] = ()
    common_name: str = ""
    serial_number: str = ""
    extra_names: tuple[NameAttribute, ...] = ()


class Uri(msgspec.Struct, frozen=True, rename=manifest_name):
    """A URI in parts: ``{"Scheme": "spiffe", "Host": "a", "Path": "/b"}``."""

    scheme: str = ""
    host: str = ""
    path: str = ""


class AddressRange(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """An IP range of a name constraint: ``mask`` has as many bytes as the address (4 or 16)."""

    ip: str
    mask: bytes


class Extension(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """An extension as it is in the certificate; ``value`` is its DER."""

    id: Oid
    value: bytes
    critical: bool = False


class CertificateTemplate(msgspec.Struct, frozen=True, rename=manifest_name):
    """The manifest's template of a certificate. ``None`` means not given: the default applies."""

    subject: Subject = Subject()
    dns_names: tuple[str, ...] | None = None  # not given: localhost
    ip_addresses: tuple[str, ...] | None = None  # not given: 127.0.0.1, ::1
    email_addresses: tuple[str, ...] = ()
    uris: tuple[Uri, ...] = ()
    key_usage: int = 0  # the bit mask of the manifest, 1 = digitalSignature; 0: the default
    ext_key_usage: tuple[int, ...] | None = None  # not given: serverAuth, clientAuth
    unknown_ext_key_usage: tuple[Oid, ...] = ()
    not_after: str = ""  # RFC 3339 with a zone, as written
    is_ca: bool = False
    max_path_len: int = 0
    max_path_len_zero: bool = False
    subject_key_id: bytes = b""
    ocsp_server: tuple[str, ...] = ()
    issuing_certificate_url: tuple[str, ...] = ()
    crl_distribution_points: tuple[str, ...] = ()
    permitted_dns_domains_critical: bool = False
    permitted_dns_domains: tuple[str, ...] = ()
    excluded_dns_domains: tuple[str, ...] = ()
    permitted_email_addresses: tuple[str, ...] = ()
    excluded_email_addresses: tuple[str, ...] = ()
    permitted_uri_domains: tuple[str, ...] = ()
    excluded_uri_domains: tuple[str, ...] = ()
    permitted_ip_ranges: tuple[AddressRange, ...] = ()
    excluded_ip_ranges: tuple[AddressRange, ...] = ()
    policies: tuple[str, ...] = ()  # dotted
    policy_identifiers: tuple[Oid, ...] = ()  # further policies; duplicates count once
    extra_extensions: tuple[Extension, ...] = ()
    signature_algorithm: int = 0  # 10, 11, 12: ECDSA with SHA-256, SHA-384, SHA-512


class SecretDefinition(msgspec.Struct, frozen=True):
    """An element of the manifest's ``Secrets``."""

    type: SecretType
    size: int = 0  # bits
    shared: bool = False
    user_defined: bool = False
    cert: CertificateTemplate | None = None  # None: no template
    cert_der: bytes = b""  # the base64 form: a DER certificate whose fields serve as template
    valid_for: int = 0  # days; 0: not given
    private: Secret | None = None  # a user-defined secret's initial value (PKCS #8 or the bytes)
    public: Secret | None = None


class UserSecret(Readable, frozen=True, kw_only=True, omit_defaults=True):
    """An uploaded secret in ``POST /api/v2/secrets``, decoded from base64. None means not given.

    A symmetric key or plain data has ``key`` alone. A certificate has ``cert`` with optional
    ``private`` and ``public``, each in DER or PEM.
    """

    key: Secret | None = None
    cert: bytes | None = None
    private: Secret | None = None
    public: bytes | None = None

    @property
    def given(self) -> "UserSecret":
        """The same upload with None in place of empty fields, because both mean not given."""
        return UserSecret(
            key=self.key or None,
            cert=self.cert or None,
            private=self.private or None,
            public=self.public or None,
        )

    @property
    def size(self) -> int:
        """The number of uploaded bytes."""
        given = (self.key, self.cert, self.private, self.public)
        return sum(len(field) for field in given if field is not None)
