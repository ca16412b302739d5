"""The manifest exactly as it is written in JSON: any field may be missing, any name unknown."""

from typing import Any

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.manifest.model import Infrastructure, Package, TlsTag
from keyhouse.wire.definitions import CertificateTemplate, Subject, Uri, manifest_name
from keyhouse.wire.jsonreader import UInt64

__all__ = [
    "WrittenConfig",
    "WrittenEntry",
    "WrittenManifest",
    "WrittenMarble",
    "WrittenRole",
    "WrittenSecret",
    "WrittenSubject",
    "WrittenTemplate",
    "WrittenUri",
    "WrittenUser",
]


class WrittenEntry(msgspec.Struct, frozen=True, rename=manifest_name):
    """The long form of a value in ``Files`` or ``Env``."""

    data: str = ""
    encoding: str = "string"
    no_templates: bool = False


class WrittenParameters(msgspec.Struct, frozen=True, rename=manifest_name):
    """``Marbles.<type>.Parameters``; ``null`` is no value of ``Files`` and ``Env``."""

    files: dict[str, str | WrittenEntry] = {}
    env: dict[str, str | WrittenEntry] = {}
    argv: tuple[str, ...] = ()


class WrittenMarble(msgspec.Struct, frozen=True, rename=manifest_name):
    """``Marbles.<type>``."""

    package: str = ""
    max_activations: UInt64 = 0
    parameters: WrittenParameters = WrittenParameters()
    tls: tuple[str, ...] = ()
    disable_secret_binding: bool = False


class WrittenSubject(Subject, frozen=True, kw_only=True, rename=manifest_name):
    """A subject with the field that has no effect."""

    names: object = None


class WrittenUri(Uri, frozen=True, kw_only=True, rename=manifest_name):
    """A URI with the other fields that Go writes: they may be there, but have to be empty."""

    opaque: object = None
    user: object = None
    raw_path: object = None
    omit_host: object = None
    force_query: object = None
    raw_query: object = None
    fragment: object = None
    raw_fragment: object = None


class WrittenTemplate(CertificateTemplate, frozen=True, kw_only=True, rename=manifest_name):
    """A certificate template with the fields that have no effect."""

    subject: WrittenSubject = WrittenSubject()
    uris: tuple[WrittenUri, ...] = ()
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
    # No certificate is made with these. Go has written them since 1.24:
    inhibit_any_policy: object = None
    inhibit_any_policy_zero: object = None
    inhibit_policy_mapping: object = None
    inhibit_policy_mapping_zero: object = None
    policy_mappings: object = None
    require_explicit_policy: object = None
    require_explicit_policy_zero: object = None


class WrittenSecret(msgspec.Struct, frozen=True, rename=manifest_name):
    """``Secrets.<name>``."""

    type: str = ""
    size: UInt64 = 0
    shared: bool = False
    user_defined: bool = False
    cert: bytes | WrittenTemplate | None = None
    valid_for: UInt64 = 0
    private: Secret | None = None
    public: Secret | None = None


class WrittenUser(msgspec.Struct, frozen=True, rename=manifest_name):
    """``Users.<name>``."""

    certificate: str = ""
    roles: tuple[str, ...] = ()


class WrittenRole(msgspec.Struct, frozen=True, rename=manifest_name):
    """``Roles.<name>``."""

    resource_type: str = ""
    resource_names: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


class WrittenConfig(msgspec.Struct, frozen=True, rename=manifest_name):
    """``Config``."""

    seal_mode: str = ""
    feature_gates: tuple[str, ...] = ()
    update_threshold: UInt64 = 0
    recovery_threshold: UInt64 = 0
    rotate_root_secret: bool = False


class WrittenManifest(msgspec.Struct, frozen=True, rename=manifest_name):
    """The whole."""

    packages: dict[str, Package] = {}
    infrastructures: dict[str, Infrastructure] = {}
    marbles: dict[str, WrittenMarble] = {}
    secrets: dict[str, WrittenSecret] = {}
    users: dict[str, WrittenUser] = {}
    roles: dict[str, WrittenRole] = {}
    recovery_keys: dict[str, str] = {}
    tls: dict[str, TlsTag] = {}
    config: WrittenConfig = WrittenConfig()


def has_content(value: Any) -> bool:
    """Tell whether a field that has no effect was given a value at all.

    SDKs write every field of a certificate, mostly empty: ``null``, 0, ``""``, ``[]``, the time of
    year 1, and objects of these.
    """
    if isinstance(value, dict):
        return any(has_content(item) for item in value.values())
    return bool(value) and value != "0001-01-01T00:00:00Z"
