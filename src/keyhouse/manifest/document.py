"""The manifest as a JSON document. Any field may be missing; no name is resolved yet."""

from typing import Any

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.manifest.model import (
    Infrastructure,
    Renewal,
    Replicas,
    TlsTag,
    Transparency,
    TrustDocument,
)
from keyhouse.wire.json_decoder import UInt64
from keyhouse.wire.package import Package
from keyhouse.wire.secret_types import CertificateTemplate, Subject, Uri, manifest_name


class EntryDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The long form of a value in ``Files`` or ``Env``; the short form is a string."""

    data: str = ""
    encoding: str = "string"
    no_templates: bool = False


class ParametersDocument(
    msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True
):
    """The JSON object ``Marbles.<type>.Parameters``. A file or variable must not be ``null``."""

    files: dict[str, str | EntryDocument] = {}
    env: dict[str, str | EntryDocument] = {}
    argv: tuple[str, ...] = ()


class MarbleDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The JSON object ``Marbles.<type>`` of a manifest."""

    package: str = ""
    max_activations: UInt64 = 0
    parameters: ParametersDocument = ParametersDocument()
    tls: tuple[str, ...] = ()
    disable_secret_binding: bool = False
    renewal: Renewal | None = None


class SubjectDocument(
    Subject, frozen=True, kw_only=True, rename=manifest_name, forbid_unknown_fields=True
):
    """The subject of a certificate template, with the field ``Names``, which has no effect."""

    names: object = None


class UriDocument(Uri, frozen=True, kw_only=True, rename=manifest_name, forbid_unknown_fields=True):
    """A URI of a certificate template, with the fields of a URI in Go.

    SDKs in Go write all these fields. Those without an effect must be empty.
    """

    opaque: object = None
    user: object = None
    raw_path: object = None
    omit_host: object = None
    force_query: object = None
    raw_query: object = None
    fragment: object = None
    raw_fragment: object = None


class TemplateDocument(
    CertificateTemplate, frozen=True, kw_only=True, rename=manifest_name, forbid_unknown_fields=True
):
    """A certificate template with the fields that have no effect."""

    subject: SubjectDocument = SubjectDocument()
    uris: tuple[UriDocument, ...] = ()
    # The coordinator sets these itself:
    authority_key_id: object = None
    basic_constraints_valid: object = None
    extensions: object = None
    issuer: object = None
    not_before: object = None
    public_key: object = None
    public_key_algorithm: object = None
    raw: object = None
    raw_issuer: object = None
    raw_subject: object = None
    raw_subject_public_key_info: object = None
    raw_tbs_certificate: object = msgspec.field(default=None, name="RawTBSCertificate")
    serial_number: object = None
    signature: object = None
    unhandled_critical_extensions: object = None
    version: object = None
    # Certificates do not use these. Go has written them since 1.24:
    inhibit_any_policy: object = None
    inhibit_any_policy_zero: object = None
    inhibit_policy_mapping: object = None
    inhibit_policy_mapping_zero: object = None
    policy_mappings: object = None
    require_explicit_policy: object = None
    require_explicit_policy_zero: object = None


class SecretDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The JSON object ``Secrets.<name>`` of a manifest."""

    type: str = ""
    size: UInt64 = 0
    shared: bool = False
    user_defined: bool = False
    cert: bytes | TemplateDocument | None = None
    valid_for: UInt64 = 0
    private: Secret | None = None
    public: Secret | None = None


class UserDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The JSON object ``Users.<name>`` of a manifest."""

    certificate: str = ""
    roles: tuple[str, ...] = ()


class RoleDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The JSON object ``Roles.<name>`` of a manifest."""

    resource_type: str = ""
    resource_names: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


class ConfigDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The JSON object ``Config`` of a manifest."""

    seal_mode: str = ""
    feature_gates: tuple[str, ...] = ()
    update_threshold: UInt64 = 0
    recovery_threshold: UInt64 = 0
    rotate_root_secret: bool = False
    replicas: Replicas | None = None
    transparency: Transparency | None = None
    trust: TrustDocument | None = None


class ManifestDocument(
    msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True
):
    """The whole manifest, as read from JSON."""

    packages: dict[str, Package] = {}
    infrastructures: dict[str, Infrastructure] = {}
    marbles: dict[str, MarbleDocument] = {}
    secrets: dict[str, SecretDocument] = {}
    users: dict[str, UserDocument] = {}
    roles: dict[str, RoleDocument] = {}
    recovery_keys: dict[str, str] = {}
    tls: dict[str, TlsTag] = {}
    config: ConfigDocument = ConfigDocument()


def has_content(value: Any) -> bool:
    """Return whether a field without an effect has a content, so that the check must report it.

    SDKs write every field of a certificate, mostly without content: ``null``, 0, ``""``, ``[]``,
    the time of year 1, and objects of these.
    """
    if isinstance(value, dict):
        return any(has_content(item) for item in value.values())
    return bool(value) and value != "0001-01-01T00:00:00Z"
