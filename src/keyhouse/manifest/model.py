"""The manifest as a value: what may run, who may do what."""

from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.wire.json_decoder import UInt16, UInt64
from keyhouse.wire.package import Package
from keyhouse.wire.secret_types import SecretDefinition, manifest_name


class Infrastructure(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """A restriction of platforms (manifest format, "Infrastructures"). Not enforced yet."""

    cpu_svn: bytes = msgspec.field(default=b"", name="CPUSVN")
    qe_svn: UInt16 | None = msgspec.field(default=None, name="QESVN")
    pce_svn: UInt16 | None = msgspec.field(default=None, name="PCESVN")
    root_ca: bytes = b""


class Entry(msgspec.Struct, frozen=True):
    """Content of a file or variable, decoded; a template unless ``no_templates``."""

    data: bytes = b""
    no_templates: bool = False


class Parameters(msgspec.Struct, frozen=True):
    """What a marble is started with. ``argv`` is never a template."""

    files: dict[str, Entry] = {}
    env: dict[str, Entry] = {}
    argv: tuple[str, ...] = ()


class Marble(msgspec.Struct, frozen=True):
    """A workload type. ``max_activations`` 0 means without limit; ``tls`` names tags."""

    package: str
    max_activations: int = 0
    parameters: Parameters = Parameters()
    tls: tuple[str, ...] = ()
    disable_secret_binding: bool = False


class Incoming(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """A port on which transparent TLS listens. ``cert`` names a secret, or is empty."""

    port: str = ""
    cert: str = ""
    disable_client_auth: bool = False
    addr: str = ""  # has no effect here


class Outgoing(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """A peer to which transparent TLS connects."""

    port: str = ""
    addr: str = ""
    cert: str = ""  # has no effect here
    disable_client_auth: bool = False  # nor has this


class TlsTag(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """The connections that a tag covers."""

    incoming: tuple[Incoming, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()


class Action(StrEnum):
    """What a role can allow."""

    UPDATE_SECURITY_VERSION = "UpdateSecurityVersion"
    READ_SECRET = "ReadSecret"  # noqa: S105  a permission
    WRITE_SECRET = "WriteSecret"  # noqa: S105  a permission
    UPDATE_MANIFEST = "UpdateManifest"


class ResourceType(StrEnum):
    """What the resource names of a role are names of."""

    PACKAGES = "Packages"
    SECRETS = "Secrets"
    MANIFEST = "Manifest"


class Role(msgspec.Struct, frozen=True):
    """Actions on resources, by exact name. ``Manifest`` has no names."""

    resource_type: ResourceType
    resource_names: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


class User(msgspec.Struct, frozen=True):
    """A client identity: ``certificate`` is DER and compared byte by byte."""

    certificate: bytes
    roles: tuple[str, ...] = ()


class RecoveryKey(msgspec.Struct, frozen=True):
    """An RSA public key: the text as written (a change of it is a change), and its DER."""

    pem: str
    public_key: bytes  # SubjectPublicKeyInfo


class SealMode(StrEnum):
    """Who can read the stored state back (manifest: ``Config.SealMode``)."""

    PRODUCT_KEY = "ProductKey"
    UNIQUE_KEY = "UniqueKey"
    DISABLED = "Disabled"


class FeatureGate(StrEnum):
    """What a manifest can switch on (manifest: ``Config.FeatureGates``)."""

    SIGN_QUOTE_ENDPOINT = "SignQuoteEndpoint"
    MONOTONIC_COUNTER = "MonotonicCounter"
    AZURE_HSM_SEALING = "AzureHSMSealing"


class Replicas(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """Which other coordinators are handed the data key (manifest: ``Config.Replicas``).

    Converted, each list is sorted and has nothing twice, in lower case where it is hex.
    """

    code: tuple[Package, ...] = ()  # identities alone; none: exactly the code that hands it over
    accepted_tcb_statuses: tuple[str, ...] = ()  # beside UpToDate
    platforms: tuple[str, ...] = ()  # PPID or CHIP_ID; none: any


class Serving(StrEnum):
    """When secrets are served (manifest: ``Config.Transparency.Serve``)."""

    ALWAYS = "Always"
    WITNESSED = "Witnessed"


class Anchored(StrEnum):
    """What is answered only once witnesses know of it (``Config.Transparency.AnchorBefore``)."""

    COUNTERS = "Counters"
    LIMITED_ACTIVATIONS = "LimitedActivations"


_NOTICED: Final = "nothing stops an old state or a second copy; clients that remember notice"

LEASE_SECONDS: Final = 3600
LEASE_OPERATIONS: Final = 10_000


class Transparency(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """What outsiders can verify of the deployment (manifest: ``Config.Transparency``).

    0 and empty stand for the defaults. Converted, these are filled in, and ``anchor_before`` is
    sorted, each once.
    """

    witnesses: str = ""  # the text of a policy; empty: none
    serve: str = Serving.ALWAYS.value
    lease_seconds: UInt64 = LEASE_SECONDS
    lease_operations: UInt64 = LEASE_OPERATIONS
    anchor_before: tuple[str, ...] = ()  # of ``Anchored``
    signed_approvals: bool = False  # whether users have to sign what they decide about updates
    origin: str = ""  # name of the log; empty: made from the root, or as it is


class Config(msgspec.Struct, frozen=True):
    """Options. A threshold of 0 means all users or all keys."""

    seal_mode: SealMode = SealMode.PRODUCT_KEY
    feature_gates: tuple[FeatureGate, ...] = ()  # sorted, each once
    update_threshold: int = 0
    recovery_threshold: int = 0
    rotate_root_secret: bool = False
    replicas: Replicas | None = None  # None: nobody is handed the data key
    transparency: Transparency | None = None  # None: nobody witnesses the transparency log

    @property
    def rollback_note(self) -> str:
        """What to tell people of rollbacks and forks; empty: witnesses stop them, or no disk."""
        if self.seal_mode is SealMode.DISABLED:
            return ""
        transparency = self.transparency
        if transparency is None or not transparency.witnesses:
            return f"no witnesses: {_NOTICED}"
        if transparency.serve == Serving.WITNESSED:
            return ""
        return f"witnesses are asked, not waited for (Serve: Always): {_NOTICED}"


class Manifest(msgspec.Struct, frozen=True):
    """A manifest: the exact bytes that were uploaded, and what they say."""

    raw: bytes
    packages: dict[str, Package]
    infrastructures: dict[str, Infrastructure]
    marbles: dict[str, Marble]
    secrets: dict[str, SecretDefinition]
    users: dict[str, User]
    roles: dict[str, Role]
    recovery_keys: dict[str, RecoveryKey]
    tls: dict[str, TlsTag]
    config: Config

    @property
    def has_values(self) -> bool:
        """Whether it gives a secret its first value, so that its text is not for everybody."""
        given = self.secrets.values()
        return any(each.private is not None or each.public is not None for each in given)
