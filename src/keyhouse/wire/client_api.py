"""Bodies of requests to the Client API as they are after reading, and the data of its answers.

Bytes are base64 on the wire. ``UNSET`` stands for a field that is left out. The description of the
interface (OpenAPI) is made from these types.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from keyhouse.base.errors import Problem
from keyhouse.base.secret import Secret
from keyhouse.wire.definitions import SecretType
from keyhouse.wire.jsonreader import UInt64
from keyhouse.wire.user_secret import UserSecret

__all__ = [
    "AcknowledgedData",
    "ActivationEntry",
    "ActivationsData",
    "CounterBody",
    "CounterData",
    "EvidenceData",
    "ManifestBody",
    "ManifestData",
    "MessageData",
    "OldManifestData",
    "OldStatusData",
    "PendingData",
    "Problems",
    "RecoverBody",
    "RecoverData",
    "RecoveryIndexData",
    "RecoveryKeyData",
    "RecoverySecretsData",
    "SecretData",
    "SecretsBody",
    "SecretsData",
    "SetManifestData",
    "SignQuoteBody",
    "SignQuoteData",
    "StatusData",
    "UpdateBody",
    "UpdateData",
    "UpdateLogData",
]


# --- bodies of requests ---


class ManifestBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/manifest`` and ``POST /api/v2/plan``: base64 on the wire."""

    manifest: bytes = b""


class UpdateBody(msgspec.Struct, frozen=True):
    """Body of the update endpoints. ``plan``: the digest that ``POST /api/v2/plan`` has answered.

    With it the call is refused if what would happen is no longer what that plan said.
    """

    manifest: bytes = b""
    plan: str | None = None


class SecretsBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/secrets``: secret name to what is uploaded."""

    secrets: dict[str, UserSecret] = {}


class RecoverBody(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST /api/v2/recover``: a share, encrypted to the coordinator's ephemeral key.

    The signature is RSA PKCS #1 v1.5 with SHA-256 over the share, by the holder's recovery key.
    """

    recovery_secret: Secret = Secret(b"")
    recovery_secret_signature: bytes = b""


class SignQuoteBody(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST /api/v2/sign-quote``: the quote, raw or with its 16-byte header."""

    sgx_quote: bytes = b""


class CounterBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/monotonic-counter``: the counter is raised to ``value``, if lower."""

    name: str = ""
    value: UInt64 = 0


# --- data of answers, version 2 ---


class StatusData(msgspec.Struct, frozen=True):
    """The phase, twice: 1 recovery mode, 2 accepting a manifest, 3 running; and in words."""

    status: Literal[1, 2, 3]
    code: Literal[1, 2, 3]
    message: str


class ManifestData(msgspec.Struct, frozen=True, rename="camel"):
    """The manifest as it was uploaded, its SHA-256 in hex, and the root key's ECDSA signature."""

    manifest_signature_root_ecdsa: bytes = msgspec.field(name="manifestSignatureRootECDSA")
    manifest_fingerprint: str
    manifest: bytes


class SetManifestData(msgspec.Struct, frozen=True, rename="camel"):
    """The encrypted recovery secrets by names of keys, under both names; nothing without keys."""

    recovery_secrets: dict[str, bytes] | UnsetType = msgspec.field(
        default=UNSET, name="RecoverySecrets"
    )
    recovery_keys: dict[str, bytes] | UnsetType = UNSET


class EvidenceData(msgspec.Struct, frozen=True):
    """Certificates in PEM, intermediate then root, and the quote with its 16-byte header."""

    cert: str
    quote: bytes


class SecretData(msgspec.Struct, frozen=True, rename="camel"):
    """A secret. What a type does not have is left out; null: a user has not uploaded it yet.

    ``size`` is in bits, ``validFor`` in days. Certificates: ``cert`` DER, ``private`` PKCS #8,
    ``public`` SubjectPublicKeyInfo; else both are the bytes.
    """

    type: SecretType
    shared: bool
    user_defined: bool
    private: bytes | None
    public: bytes | None
    size: int | UnsetType = UNSET
    cert: bytes | UnsetType | None = UNSET
    valid_for: int | UnsetType = UNSET


class SecretsData(msgspec.Struct, frozen=True):
    """Each requested name with its secret."""

    secrets: dict[str, SecretData]


class UpdateLogData(msgspec.Struct, frozen=True, rename="camel"):
    """One JSON text for each entry, oldest first."""

    update_log: list[str]


class UpdateData(msgspec.Struct, frozen=True, rename="camel"):
    """Who has to agree still; ``recoverySecrets`` if the update is in force and renewed them."""

    missing_acknowledgments: int
    missing_users: list[str]
    recovery_secrets: dict[str, bytes] | UnsetType = UNSET


class AcknowledgedData(UpdateData, frozen=True, kw_only=True, rename="camel"):
    """What an update came to, in words as well."""

    message: str


class PendingData(msgspec.Struct, frozen=True, rename="camel"):
    """The manifest that waits, and the users who have not agreed to it yet."""

    manifest: bytes
    missing_users: list[str]
    message: str


class MessageData(msgspec.Struct, frozen=True):
    """What happened, in words."""

    message: str


class RecoveryIndexData(msgspec.Struct, frozen=True, rename="camel"):
    """Who can recover the state: the root it had (DER), and the keys (DER) by name."""

    root: bytes
    manifest_fingerprint: str
    store_id: str
    epoch: int
    threshold: int
    keys: dict[str, bytes]


class RecoveryKeyData(msgspec.Struct, frozen=True, rename="camel"):
    """The key to encrypt recovery secrets to (DER), signed by the temporary root."""

    algorithm: Literal["RSA"]
    ephemeral_public_key: bytes
    signature: bytes
    index: RecoveryIndexData
    received: list[str]


class RecoverySecretsData(msgspec.Struct, frozen=True, rename="camel"):
    """The encrypted recovery secrets by names of keys."""

    recovery_secrets: dict[str, bytes]


class RecoverData(msgspec.Struct, frozen=True):
    """How many recovery secrets are needed still."""

    remaining: int
    message: str


class SignQuoteData(msgspec.Struct, frozen=True, rename="camel"):
    """The root key's signature over quote and TCB status, under both names."""

    tcb_status: str
    signature: bytes
    verification_signature: bytes


class CounterData(msgspec.Struct, frozen=True):
    """The value before this call."""

    value: UInt64


class ActivationEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """A workload that was activated. Without a quote, in simulation, nothing is known of it.

    Bytes of the quote are lower-case hex; ``names`` are those in the certificate that it got.
    """

    time: str
    marble_type: str
    uuid: str
    names: list[str] = []
    quoted: bool = False
    platform: str = ""  # PPID
    unique_id: str = msgspec.field(default="", name="uniqueID")  # MRENCLAVE
    signer_id: str = msgspec.field(default="", name="signerID")  # MRSIGNER
    tcb_status: str = ""
    counted: bool = False  # against MaxActivations
    moved_from: str = ""  # PPID of the platform that had this UUID before


class ActivationsData(msgspec.Struct, frozen=True):
    """A page of the audit trail; ``first`` and ``next`` are numbers of activations."""

    activations: list[ActivationEntry]
    first: int
    next: int


# --- data of answers, version 1, where they differ ---


class OldStatusData(msgspec.Struct, frozen=True, rename="camel"):
    """The phase as in version 2, in words as well."""

    status_code: Literal[1, 2, 3]
    status_message: str


class OldManifestData(msgspec.Struct, frozen=True, rename="camel"):
    """The manifest, its SHA-256 in hex and the signature; null, empty, null before there is one."""

    manifest_signature_root_ecdsa: bytes | None = msgspec.field(name="manifestSignatureRootECDSA")
    manifest_signature: str
    manifest: bytes | None


# --- data of refusals ---


class Problems(msgspec.Struct, frozen=True):
    """Every finding of a check at once."""

    problems: list[Problem]
