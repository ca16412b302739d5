"""The Client API as types: bodies of requests, and data of answers.

One type each: the coordinator reads or sends it, the SDK sends or reads it, and the description of
the interface (OpenAPI) is made from it. Bytes are base64 on the wire. Readers ignore unknown
fields; what a default means, and what is not always sent: ``keyhouse.wire.sent``.
"""

from typing import Annotated

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.base.readable import Readable
from keyhouse.base.secret import Secret
from keyhouse.wire.json_decoder import UInt64
from keyhouse.wire.secret_types import SecretType, UserSecret
from keyhouse.wire.sent import OneOf, OrNull, Sometimes, Unsent

# --- bodies of requests ---


class ManifestBody(Readable, frozen=True):
    """Body of ``POST /api/v2/manifest`` and ``POST /api/v2/plan``: base64 on the wire."""

    manifest: bytes = b""


class UpdateBody(Readable, frozen=True, omit_defaults=True):
    """Body of the update endpoints. ``plan``: the digest that ``POST /api/v2/plan`` has answered.

    With it the call is refused if what would happen is no longer what that plan said. ``approval``:
    a DSSE envelope, signed by the key of the user's certificate.
    """

    manifest: bytes = b""
    plan: str | None = None
    approval: bytes | None = None


class CancelBody(Readable, frozen=True, omit_defaults=True):
    """Body of ``POST /api/v2/update-cancel``, which may be empty. ``approval`` as of an update."""

    approval: bytes | None = None


class SecretsBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/secrets``: secret name to what is uploaded."""

    secrets: dict[str, UserSecret] = {}


class RecoverBody(Readable, frozen=True, rename="camel"):
    """Body of ``POST /api/v2/recover``: a share, encrypted to the coordinator's ephemeral key.

    The signature is RSA PKCS #1 v1.5 with SHA-256 over the share, by the holder's recovery key.
    """

    recovery_secret: Secret = Secret(b"")
    recovery_secret_signature: bytes = b""


class SignQuoteBody(Readable, frozen=True, rename="camel"):
    """Body of ``POST /api/v2/sign-quote``: the quote, raw or with its 16-byte header."""

    sgx_quote: bytes = b""


class CounterBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/monotonic-counter``: the counter is raised to ``value``, if lower."""

    name: str = ""
    value: UInt64 = 0


# --- data of answers, version 2 ---

_Phase = Annotated[UInt64, OneOf((1, 2, 3))]


class LeaseLeft(msgspec.Struct, frozen=True):
    """The rest of the lease that a quorum of the witnesses has granted; both 0: it has ended.

    ``operations`` is rounded down to a tenth of ``LeaseOperations``.
    """

    seconds: UInt64
    operations: UInt64


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The phase, twice: 1 recovery mode, 2 accepting a manifest, 3 running; and in words.

    ``lease``: left out where the manifest names no witnesses.
    """

    status: _Phase = 0  # another implementation sends ``code`` alone
    code: _Phase
    message: str = ""
    lease: Sometimes[LeaseLeft | None] = None


class ManifestData(Readable, frozen=True):
    """The manifest as it was uploaded, its SHA-256 in hex, and the root key's ECDSA signature."""

    signature: bytes = msgspec.field(name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(name="manifestFingerprint")
    manifest: bytes


class SetManifestData(Readable, frozen=True, omit_defaults=True):
    """The encrypted recovery secrets by names of keys, under both names; nothing without keys."""

    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")
    recovery_keys: dict[str, bytes] = msgspec.field(default={}, name="recoveryKeys")

    @property
    def shares(self) -> dict[str, bytes]:
        """The recovery secrets under whatever name they came."""
        return self.recovery_secrets or self.recovery_keys


class EvidenceData(Readable, frozen=True):
    """Certificates in PEM, intermediate then root, and the quote with its 16-byte header."""

    cert: str
    quote: bytes


class LogKeyData(Readable, frozen=True, rename="camel"):
    """The key of the transparency log: its origin, as a C2SP verifier key, and why to believe it.

    The signature is ECDSA with SHA-256 in DER, by the root key, over ``keyhouse log key v1``, a NUL
    and the verifier key.
    """

    origin: str
    verifier_key: str
    signature: bytes


class LogQuoteData(Readable, frozen=True):
    """A checkpoint as a signed note, and a quote over its text and the caller's nonce.

    The first half of the quote's report data is SHA-256 over the root certificate (DER) and the
    nonce, the second SHA-256 over ``keyhouse head v1``, a NUL and the text of the note.
    """

    checkpoint: str
    quote: bytes


class SecretObject(Readable, frozen=True, kw_only=True, rename="camel"):
    """A secret. What a type does not have is left out; null: a user has not uploaded it yet.

    ``size`` is in bits, ``validFor`` in days. Certificates: ``cert`` DER, ``private`` PKCS #8,
    ``public`` SubjectPublicKeyInfo; else both are the bytes.
    """

    type: Annotated[str, OneOf(tuple(SecretType))]
    size: Sometimes[UInt64] = 0
    shared: bool = False
    user_defined: bool = False
    cert: Sometimes[OrNull[bytes]] = b""
    valid_for: Sometimes[UInt64] = 0
    private: Secret | None = None
    public: Secret | None = None


class SecretsData(msgspec.Struct, frozen=True):
    """Each requested name with its secret."""

    secrets: dict[str, SecretObject]


class LineEntryData(Readable, frozen=True):
    """One entry of the line, and the names of the objects of the log that prove it.

    ``entry``: the exact bytes, base64 on the wire. ``quote`` and ``collateral`` are empty for an
    entry without a quote; ``collateral`` also if none was at hand when the quote was made.
    """

    entry: bytes
    quote: str = ""
    collateral: str = ""


class LineData(Readable, frozen=True):
    """Data of ``GET /api/v2/line``: every manifest that was in force under the root, in order.

    The manifests are objects of the log (``/api/v2/log/object/FINGERPRINT``), but those that give a
    secret its first value. ``quote`` binds the root certificate with the caller's nonce, and the
    hash of the last entry with the text of ``checkpoint`` (a signed note; empty: no log).
    """

    entries: tuple[LineEntryData, ...]
    checkpoint: str
    quote: bytes


class UpdateLogData(msgspec.Struct, frozen=True, rename="camel"):
    """One JSON text for each entry, oldest first."""

    update_log: tuple[str, ...] = ()


class LogEntry(msgspec.Struct, frozen=True):
    """A line of the update log. ``text`` is the whole JSON text, with all its keys."""

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    update: str = ""
    user: str = ""
    text: Unsent[str] = ""


class UpdateAnswer(Readable, frozen=True, kw_only=True, rename="camel"):
    """Who has to agree still; ``recoverySecrets`` if the update is in force and renewed them."""

    message: Unsent[str] = ""  # to a reader: the envelope's, with warnings and what they mean
    signed: Unsent[bool] = False  # to a reader: whether the request had a signed approval
    missing_acknowledgments: UInt64  # 0: the update is in force
    missing_users: tuple[str, ...] = ()  # who may still agree; may be more than are needed
    # by key name: kept first of all
    recovery_secrets: Sometimes[dict[str, bytes]] = msgspec.field(default={})
    witnessed: Sometimes[bool] = False  # whether a quorum of witnesses knows; false: there are none

    @property
    def applied(self) -> bool:
        """Whether the update is in force."""
        return self.missing_acknowledgments == 0


class AcknowledgedData(UpdateAnswer, frozen=True, kw_only=True, rename="camel"):
    """What an update came to, in words as well."""

    message: str = ""


class Pending(Readable, frozen=True, rename="camel"):
    """The manifest that waits, and the users who have not agreed to it yet."""

    manifest: bytes  # exactly these bytes have to be acknowledged
    message: str = ""
    missing_users: tuple[str, ...] = ()


class MessageData(msgspec.Struct, frozen=True):
    """What happened, in words."""

    message: str


class RecoveryIndexData(Readable, frozen=True, kw_only=True, rename="camel"):
    """Who can recover the state: the root it had (DER), and the keys (DER) by name."""

    root: bytes
    manifest_fingerprint: str = ""
    store_id: str = ""
    epoch: UInt64 = 0
    threshold: UInt64
    keys: dict[str, bytes]


class Offer(Readable, frozen=True, kw_only=True, rename="camel"):
    """The key to encrypt recovery secrets to (DER), signed by the temporary root."""

    algorithm: Annotated[str, OneOf(("RSA",))] = "RSA"
    ephemeral_public_key: bytes
    signature: bytes
    index: RecoveryIndexData
    received: tuple[str, ...] = ()  # names of the keys whose shares are in


class RecoverySecretsData(Readable, frozen=True, rename="camel"):
    """The encrypted recovery secrets by names of keys."""

    recovery_secrets: dict[str, bytes]


class Progress(msgspec.Struct, frozen=True):
    """How many recovery secrets are needed still; ``witnessed`` as in the answer to an update."""

    remaining: UInt64
    message: str = ""
    witnessed: Sometimes[bool] = False


class SignedQuote(Readable, frozen=True, kw_only=True, rename="camel"):
    """The root key's signature over quote and TCB status, under both names."""

    tcb_status: str
    signature: bytes = b""  # another implementation sends the other name alone
    verification_signature: bytes


class CounterData(msgspec.Struct, frozen=True):
    """The value before this call."""

    value: UInt64


class Activation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A workload that was activated. Without a quote, in simulation, nothing is known of it.

    Bytes of the quote are lower-case hex; ``names`` are those in the certificate that it got.
    """

    time: str  # YYYY-MM-DDThh:mm:ss.mmmZ
    marble_type: str
    uuid: str
    names: tuple[str, ...] = ()
    quoted: bool = False
    platform: str = ""  # PPID
    unique_id: str = msgspec.field(default="", name="uniqueID")  # MRENCLAVE
    signer_id: str = msgspec.field(default="", name="signerID")  # MRSIGNER
    mrtd: str = ""  # of a confidential VM, which has no MRENCLAVE and MRSIGNER
    rtmrs: tuple[str, ...] = ()
    measurement: str = ""  # of a confidential VM of SEV-SNP
    tcb_status: str = ""
    counted: bool = False  # against MaxActivations
    moved_from: str = ""  # PPID of the platform that had this UUID before


class Activations(msgspec.Struct, frozen=True):
    """A page of the audit trail; ``first`` and ``next`` are numbers of activations."""

    activations: tuple[Activation, ...]
    first: UInt64
    next: UInt64


class RefusedActivation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Activations that were refused for one reason; ``count`` of them, the newest at ``time``.

    Type and UUID, that of the newest, are what they claimed: at most 100 characters of each.
    ``quoted``: the quote verified and was made for the workload, so its measurements are true.
    """

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    first: str = ""
    count: UInt64 = 0
    marble_type: str
    uuid: str = ""
    package: str = ""  # of the type, in the manifest of then
    quoted: bool = False
    unique_id: str = msgspec.field(default="", name="uniqueID")  # MRENCLAVE
    signer_id: str = msgspec.field(default="", name="signerID")  # MRSIGNER
    mrtd: str = ""
    measurement: str = ""
    tcb_status: str = ""
    code: str  # of the error, as in metrics and logs
    reason: str
    hint: str = ""


class RefusedActivations(msgspec.Struct, frozen=True):
    """What one process has refused ``since`` it began, the newest first."""

    refused: tuple[RefusedActivation, ...]
    since: str


class ActivationLimit(msgspec.Struct, frozen=True, rename="camel"):
    """How often a marble type was activated, of the times that its MaxActivations allows."""

    activations: UInt64
    max_activations: UInt64


class WorkloadCounters(msgspec.Struct, frozen=True, rename="camel"):
    """The monotonic counters of one workload, by name."""

    marble_type: str
    uuid: str
    counters: dict[str, UInt64]


class Counters(msgspec.Struct, frozen=True):
    """The limits by marble type, and the counters of the workloads in a page of the audit trail.

    ``first`` and ``next`` are numbers of activations. A workload without counters is left out.
    """

    limits: dict[str, ActivationLimit]
    workloads: tuple[WorkloadCounters, ...]
    first: UInt64
    next: UInt64


# --- data of answers, version 1, where they differ ---


class OldStatusData(msgspec.Struct, frozen=True, rename="camel"):
    """The phase as in version 2, in words as well."""

    status_code: _Phase
    status_message: str = ""


class OldManifestData(Readable, frozen=True):
    """The manifest, its SHA-256 in hex and the signature; null, empty, null before there is one."""

    signature: OrNull[bytes] = msgspec.field(default=b"", name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(default="", name="manifestSignature")
    manifest: OrNull[bytes] = b""


class OldSetManifestData(Readable, frozen=True, omit_defaults=True):
    """As in version 2, in another order."""

    recovery_keys: dict[str, bytes] = msgspec.field(default={}, name="recoveryKeys")
    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")


# --- data of refusals ---


class Problems(msgspec.Struct, frozen=True):
    """Every finding of a check at once."""

    problems: tuple[Problem, ...] = ()
