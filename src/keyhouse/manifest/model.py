"""The manifest as a value: packages, workloads, secrets, users, roles and options."""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.wire.json_decoder import UInt16, UInt64
from keyhouse.wire.package import Package
from keyhouse.wire.secret_types import SecretDefinition, manifest_name


class Infrastructure(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """A restriction of platforms (manifest: ``Infrastructures``). Keyhouse does not enforce it."""

    cpu_svn: bytes = msgspec.field(default=b"", name="CPUSVN")
    qe_svn: UInt16 | None = msgspec.field(default=None, name="QESVN")
    pce_svn: UInt16 | None = msgspec.field(default=None, name="PCESVN")
    root_ca: bytes = b""


class EncodedContent(msgspec.Struct, frozen=True):
    """Decoded content of a file or variable.

    Without ``no_templates``, the content is a template.
    """

    data: bytes = b""
    no_templates: bool = False


class MarbleParameters(msgspec.Struct, frozen=True):
    """The files, variables and arguments of a marble type. ``argv`` is never a template."""

    files: dict[str, EncodedContent] = {}
    env: dict[str, EncodedContent] = {}
    argv: tuple[str, ...] = ()


VALID_MINUTES: Final = 60
"""Validity of a renewable certificate. A revocation has its full effect only after this time."""


class OnChange(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The reload of a program after its files changed: a signal, a command or a restart."""

    signal: str = ""  # HUP, USR1, USR2 or TERM
    command: tuple[str, ...] = ()  # program with an absolute path, and arguments
    restart: bool = False


class OnEnd(StrEnum):
    """Whether a program stops when its certificate has expired (``Marbles.X.Renewal.OnEnd``)."""

    KEEP = "Keep"
    STOP = "Stop"


class Renewal(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The renewal of a running workload (manifest: ``Marbles.X.Renewal``).

    In a manifest, 0 and empty mean the defaults. Its conversion to a value fills in the defaults.
    """

    valid_minutes: UInt64 = VALID_MINUTES
    on_change: OnChange = OnChange()
    on_end: str = OnEnd.KEEP.value


class TrustDocument(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The trust of workloads in certificates from before an update (manifest: ``Config.Trust``).

    After an update, a former marble root stays trusted for ``overlap_hours``.
    """

    overlap_hours: UInt64 = 0  # a former marble root stays trusted for this time


class MarbleDefinition(msgspec.Struct, frozen=True):
    """A marble type. ``max_activations`` 0 means no limit. ``tls``: names of tags in ``TLS``."""

    package: str
    max_activations: int = 0
    parameters: MarbleParameters = MarbleParameters()
    tls: tuple[str, ...] = ()
    disable_secret_binding: bool = False
    renewal: Renewal | None = None  # None: certificates are never renewed


class Incoming(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """A listening port with transparent TLS (``TLS.<tag>.Incoming``).

    ``cert`` names the secret with the port's certificate; "": the marble certificate.
    """

    port: str = ""
    cert: str = ""
    disable_client_auth: bool = False
    addr: str = ""  # has no effect here


class Outgoing(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """A peer for outgoing connections with transparent TLS (``TLS.<tag>.Outgoing``)."""

    port: str = ""
    addr: str = ""
    cert: str = ""  # has no effect here
    disable_client_auth: bool = False  # has no effect here


class TlsTag(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The incoming and outgoing connections of a TLS tag (``TLS.<tag>``)."""

    incoming: tuple[Incoming, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()


class Action(StrEnum):
    """The permissions that a role can give."""

    UPDATE_SECURITY_VERSION = "UpdateSecurityVersion"
    READ_SECRET = "ReadSecret"  # noqa: S105  a permission
    WRITE_SECRET = "WriteSecret"  # noqa: S105  a permission
    UPDATE_MANIFEST = "UpdateManifest"
    REVOKE_WORKLOAD = "RevokeWorkload"


class ResourceType(StrEnum):
    """The kind of objects that a role names in ``ResourceNames``."""

    PACKAGES = "Packages"
    SECRETS = "Secrets"
    MANIFEST = "Manifest"
    MARBLES = "Marbles"


class Role(msgspec.Struct, frozen=True):
    """Permitted actions on the named resources. Names are compared exactly.

    The resource type ``Manifest`` needs no names: there is a single manifest.
    """

    resource_type: ResourceType
    resource_names: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


class User(msgspec.Struct, frozen=True):
    """A client identity: ``certificate`` is DER and compared byte by byte."""

    certificate: bytes
    roles: tuple[str, ...] = ()


class HolderPublicKey(msgspec.Struct, frozen=True):
    """A recovery key: an RSA public key as written in the manifest (PEM), and in DER.

    A new text of the same key counts as a change of the manifest.
    """

    pem: str
    public_key: bytes  # SubjectPublicKeyInfo


class SealMode(StrEnum):
    """The mode of storage, which decides who can unseal the state (``Config.SealMode``)."""

    PRODUCT_KEY = "ProductKey"
    UNIQUE_KEY = "UniqueKey"
    DISABLED = "Disabled"


class FeatureGate(StrEnum):
    """The optional features of a manifest (``Config.FeatureGates``)."""

    SIGN_QUOTE_ENDPOINT = "SignQuoteEndpoint"
    MONOTONIC_COUNTER = "MonotonicCounter"
    AZURE_HSM_SEALING = "AzureHSMSealing"


class Replicas(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The coordinators that may receive the data key in a hand-off (``Config.Replicas``).

    The conversion of a manifest to a value sorts each list without duplicates, and turns hex into
    lower case.
    """

    code: tuple[Package, ...] = ()  # identities only; empty: exactly the code that sends the key
    accepted_tcb_statuses: tuple[str, ...] = ()  # in addition to UpToDate
    platforms: tuple[str, ...] = ()  # PPID or CHIP_ID; none: any


class ServeCondition(StrEnum):
    """The condition for serving secrets (manifest: ``Config.Transparency.Serve``)."""

    ALWAYS = "Always"
    WITNESSED = "Witnessed"


class Anchored(StrEnum):
    """The operations that wait for witnesses (``Config.Transparency.AnchorBefore``)."""

    COUNTERS = "Counters"
    LIMITED_ACTIVATIONS = "LimitedActivations"
    REVOCATIONS = "Revocations"


_NOTICED: Final = "nothing stops an old state or a second copy; clients that remember notice"

LEASE_SECONDS: Final = 3600
LEASE_OPERATIONS: Final = 10_000


class Transparency(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The options for outside verification (manifest: ``Config.Transparency``).

    In a manifest, 0 and empty mean the defaults. Its conversion to a value fills in the defaults,
    and sorts ``anchor_before`` without duplicates.
    """

    witnesses: str = ""  # the text of a policy; empty: none
    serve: str = ServeCondition.ALWAYS.value
    lease_seconds: UInt64 = LEASE_SECONDS
    lease_operations: UInt64 = LEASE_OPERATIONS
    anchor_before: tuple[str, ...] = ()  # of ``Anchored``
    signed_approvals: bool = False  # must users sign their decisions about updates?
    origin: str = ""  # name of the log; empty: derived from the root, or unchanged


class Config(msgspec.Struct, frozen=True):
    """The section ``Config`` of a manifest.

    0 as ``update_threshold`` requires all users, and as ``recovery_threshold`` all recovery keys.
    """

    seal_mode: SealMode = SealMode.PRODUCT_KEY
    feature_gates: tuple[FeatureGate, ...] = ()  # sorted, without duplicates
    update_threshold: int = 0
    recovery_threshold: int = 0
    rotate_root_secret: bool = False
    replicas: Replicas | None = None  # None: no coordinator may receive the data key
    transparency: Transparency | None = None  # None: the transparency log has no witnesses
    trust: TrustDocument | None = None  # None: an update replaces the marble root at once

    @property
    def rollback_note(self) -> str:
        """A warning for people about rollbacks and forks.

        Empty if secrets are served only with cosignatures of witnesses, or if no state is stored.
        """
        if self.seal_mode is SealMode.DISABLED:
            return ""
        transparency = self.transparency
        if transparency is None or not transparency.witnesses:
            return f"no witnesses: {_NOTICED}"
        if transparency.serve == ServeCondition.WITNESSED:
            return ""
        return f"witnesses are asked, not waited for (Serve: Always): {_NOTICED}"


class Manifest(msgspec.Struct, frozen=True):
    """A manifest: the exact uploaded bytes, and their content."""

    raw: bytes
    packages: dict[str, Package]
    infrastructures: dict[str, Infrastructure]
    marbles: dict[str, MarbleDefinition]
    secrets: dict[str, SecretDefinition]
    users: dict[str, User]
    roles: dict[str, Role]
    recovery_keys: dict[str, HolderPublicKey]
    tls: dict[str, TlsTag]
    config: Config

    @property
    def is_living(self) -> bool:
        """True if workloads renew certificates or can be revoked.

        The journal of such a state has events that earlier versions of Keyhouse cannot read.
        """
        transparency = self.config.transparency
        return (
            self.config.trust is not None
            or (transparency is not None and Anchored.REVOCATIONS in transparency.anchor_before)
            or any(marble.renewal is not None for marble in self.marbles.values())
            or any(role.resource_type is ResourceType.MARBLES for role in self.roles.values())
        )

    @property
    def has_values(self) -> bool:
        """True if the manifest gives a secret its first value. The manifest is then not public."""
        given = self.secrets.values()
        return any(each.private is not None or each.public is not None for each in given)


def fingerprint(raw: bytes) -> str:
    """Return the SHA-256 of the exact manifest bytes, in lower-case hex."""
    return hashlib.sha256(raw).hexdigest()
