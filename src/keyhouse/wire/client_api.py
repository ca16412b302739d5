"""The Client API as types: bodies of requests, and data of answers.

The coordinator, the SDK and the description of the interface (OpenAPI) share each type. Bytes are
base64 on the wire. Readers ignore unknown fields. A type with ``Old`` in its name belongs to
version 1. ``keyhouse.wire.field_presence`` explains defaults and fields that are not always sent.
"""

from typing import Annotated

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.base.hex_repr import Readable
from keyhouse.base.secret import Secret
from keyhouse.wire.field_presence import OneOf, OrNull, Sometimes, Unsent
from keyhouse.wire.json_decoder import UInt64
from keyhouse.wire.secret_types import SecretType, UserSecret

# --- bodies of requests ---


class ManifestBody(Readable, frozen=True):
    """Body of ``POST /api/v2/manifest`` and ``POST /api/v2/plan``: the manifest in base64."""

    manifest: bytes = b""


class UpdateBody(Readable, frozen=True, omit_defaults=True):
    """Body of ``POST /api/v2/update`` and ``POST /api/v2/update-manifest``: the new manifest.

    ``plan``: the digest from the answer of ``POST /api/v2/plan``.

    With ``plan``, the coordinator refuses the update if its effect no longer equals this plan.
    ``approval``: a DSSE envelope, signed by the key of the user's certificate.
    """

    manifest: bytes = b""
    plan: str | None = None
    approval: bytes | None = None


class CancelBody(Readable, frozen=True, omit_defaults=True):
    """Body of ``POST /api/v2/update-cancel``. The body may be empty.

    ``approval``: as in ``UpdateBody``.
    """

    approval: bytes | None = None


class SecretsBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/secrets``: the uploaded values by name of the secret."""

    secrets: dict[str, UserSecret] = {}


class RecoverBody(Readable, frozen=True, rename="camel"):
    """Body of ``POST /api/v2/recover``: a share, encrypted to the coordinator's ephemeral key.

    The holder's recovery key signs the share: RSA PKCS #1 v1.5 with SHA-256.
    """

    recovery_secret: Secret = Secret(b"")
    recovery_secret_signature: bytes = b""


class SignQuoteBody(Readable, frozen=True, rename="camel"):
    """Body of ``POST /api/v2/sign-quote``: the quote, raw or after a header of 16 bytes."""

    sgx_quote: bytes = b""


class CounterBody(msgspec.Struct, frozen=True):
    """Body of ``POST /api/v2/monotonic-counter``: raises a counter below ``value`` to ``value``."""

    name: str = ""
    value: UInt64 = 0


class RevocationBody(Readable, frozen=True, rename="camel", omit_defaults=True):
    """Body of ``POST /api/v2/revocations``: revokes a workload, a marble type or a platform.

    ``scope`` is ``workload``, ``type`` or ``platform``. ``platform`` is in hex. The update log
    contains ``reason``.
    """

    scope: str = ""  # "workload", "type" or "platform"
    marble_type: str = ""  # of a workload or a type
    uuid: str = ""  # of a workload
    platform: str = ""  # PPID or CHIP_ID in hex
    reason: str = ""  # for the update log; at most 200 characters


# --- data of answers, version 2 ---

_Phase = Annotated[UInt64, OneOf((1, 2, 3))]


class LeaseLeft(msgspec.Struct, frozen=True):
    """The remaining seconds and operations of the lease; both are 0 after its end.

    A quorum of the witnesses has granted the lease. ``operations`` is rounded down to a multiple of
    a tenth of the manifest's ``LeaseOperations``.
    """

    seconds: UInt64
    operations: UInt64


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The phase: 1 recovery mode, 2 accepting a manifest, 3 running.

    ``status`` and ``code`` both have this number, and ``message`` has its text. ``lease`` is left
    out if the manifest names no witnesses.
    """

    status: _Phase = 0  # other implementations send ``code`` only
    code: _Phase
    message: str = ""
    lease: Sometimes[LeaseLeft | None] = None


class ManifestData(Readable, frozen=True):
    """The manifest as uploaded, its SHA-256 in hex, and the root key's ECDSA signature."""

    signature: bytes = msgspec.field(name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(name="manifestFingerprint")
    manifest: bytes


class SetManifestData(Readable, frozen=True, omit_defaults=True):
    """The recovery secrets by name of the recovery key.

    ``RecoverySecrets`` and ``recoveryKeys`` are equal, because some clients read only one of them.
    Without recovery keys in the manifest, both are left out.
    """

    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")
    recovery_keys: dict[str, bytes] = msgspec.field(default={}, name="recoveryKeys")

    @property
    def shares(self) -> dict[str, bytes]:
        """The recovery secrets by name of the recovery key.

        An answer may have only ``RecoverySecrets`` or only ``recoveryKeys``. Empty: the answer has
        neither field.
        """
        return self.recovery_secrets or self.recovery_keys


class EvidenceData(Readable, frozen=True):
    """The certificates of intermediate and root, in PEM, and the quote of the coordinator.

    A transport header of 16 bytes precedes a quote of SGX.
    """

    cert: str
    quote: bytes


class LogKeyData(Readable, frozen=True, rename="camel"):
    """The key of the transparency log: origin, C2SP verifier key, and a signature by the root key.

    The signature is ECDSA with SHA-256 in DER, over ``keyhouse log key v1``, a NUL and the verifier
    key.
    """

    origin: str
    verifier_key: str
    signature: bytes


class LogQuoteData(Readable, frozen=True):
    """A checkpoint as a signed note, and a quote over the checkpoint's text and the client's nonce.

    The report data of the quote has two halves: SHA-256 over the root certificate (DER) and the
    nonce, then SHA-256 over ``keyhouse head v1``, a NUL and the text of the note.
    """

    checkpoint: str
    quote: bytes


class SecretObject(Readable, frozen=True, kw_only=True, rename="camel"):
    """A secret. A field is left out if the secret's type does not have the field.

    A null field has no value yet: no user has uploaded the secret. ``size`` is in bits,
    ``validFor`` in days. Certificates: ``cert`` is DER, ``private`` PKCS #8, ``public``
    SubjectPublicKeyInfo. For all further types, ``private`` and ``public`` are the same bytes.
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
    """The requested secrets by name, the data of ``GET /secrets``."""

    secrets: dict[str, SecretObject]


class LineEntryData(Readable, frozen=True):
    """An entry of the line of the root, and the names of the log objects that prove it.

    ``entry``: the exact bytes of the entry, base64 on the wire. An entry without a quote has an
    empty ``quote`` and ``collateral``. ``collateral`` is also empty if the coordinator had no
    collateral for the quote at that time.
    """

    entry: bytes
    quote: str = ""
    collateral: str = ""


class LineData(Readable, frozen=True):
    """Data of ``GET /api/v2/line``: every manifest that was in force under the root, in order.

    The manifests are objects of the log (``/api/v2/log/object/FINGERPRINT``), except manifests that
    give a secret its first value. ``checkpoint`` is a signed note; empty: the deployment has no
    log. ``quote`` covers four values together: the root certificate, the caller's nonce, the hash
    of the last entry, and the text of ``checkpoint``.
    """

    entries: tuple[LineEntryData, ...]
    checkpoint: str
    quote: bytes


class UpdateLogData(msgspec.Struct, frozen=True, rename="camel"):
    """The update log: a JSON text for each of its lines, oldest first."""

    update_log: tuple[str, ...] = ()


class LogEntry(msgspec.Struct, frozen=True):
    """A line of the update log. ``text`` is the whole JSON text, with all its keys."""

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    update: str = ""
    user: str = ""
    text: Unsent[str] = ""


class UpdateAnswer(Readable, frozen=True, kw_only=True, rename="camel"):
    """The answer to an update: the users without an acknowledgement, or the update's effect.

    ``recoverySecrets`` are sent if the update is in force and has made new recovery secrets.
    """

    message: Unsent[str] = ""  # set by a reader: the envelope's message, with explained warnings
    signed: Unsent[bool] = False  # set by a reader: did the request have a signed approval?
    missing_acknowledgments: UInt64  # 0: the update is in force
    # Users who may still acknowledge; may be more than necessary.
    missing_users: tuple[str, ...] = ()
    # by key name; a client saves them before anything else
    recovery_secrets: Sometimes[dict[str, bytes]] = msgspec.field(default={})
    # Has a quorum of witnesses cosigned? False without witnesses.
    witnessed: Sometimes[bool] = False

    @property
    def applied(self) -> bool:
        """True if the update is in force."""
        return self.missing_acknowledgments == 0


class AcknowledgedData(UpdateAnswer, frozen=True, kw_only=True, rename="camel"):
    """The answer to an acknowledgement: as ``UpdateAnswer``, and the result as text for people."""

    message: str = ""


class Pending(Readable, frozen=True, rename="camel"):
    """The pending manifest, and the users who have not acknowledged it yet."""

    manifest: bytes  # acknowledge exactly these bytes
    message: str = ""
    missing_users: tuple[str, ...] = ()


class MessageData(msgspec.Struct, frozen=True):
    """The result of a change as text for people."""

    message: str


class RecoveryIndexData(Readable, frozen=True, kw_only=True, rename="camel"):
    """The readable part of the recovery index, for holders: it identifies a state to recover.

    ``root`` is the root certificate (DER) of this state. ``keys``: the recovery keys (DER) by name.
    ``threshold``: the number of necessary shares.
    """

    root: bytes
    manifest_fingerprint: str = ""
    store_id: str = ""
    epoch: UInt64 = 0
    threshold: UInt64
    keys: dict[str, bytes]


class Offer(Readable, frozen=True, kw_only=True, rename="camel"):
    """A coordinator in recovery mode: its public key for shares, and the state to recover.

    Holders encrypt their shares to the ephemeral public key (DER). ``signature``: by the temporary
    root of this coordinator, over this key. ``index``: the state to recover.
    """

    algorithm: Annotated[str, OneOf(("RSA",))] = "RSA"
    ephemeral_public_key: bytes
    signature: bytes
    index: RecoveryIndexData
    received: tuple[str, ...] = ()  # names of the keys of received shares


class RecoverySecretsData(Readable, frozen=True, rename="camel"):
    """The recovery secrets of the present data key, by name of the recovery key."""

    recovery_secrets: dict[str, bytes]


class Progress(msgspec.Struct, frozen=True):
    """The answer to a share: the number of shares that are still missing.

    ``witnessed``: as in ``UpdateAnswer``.
    """

    remaining: UInt64
    message: str = ""
    witnessed: Sometimes[bool] = False


class SignedQuote(Readable, frozen=True, kw_only=True, rename="camel"):
    """The root key's signature over a quote and its TCB status.

    Keyhouse sends this signature in ``signature`` and in ``verification_signature``.
    """

    tcb_status: str
    # Other implementations send ``verification_signature`` only.
    signature: bytes = b""
    verification_signature: bytes


class CounterData(msgspec.Struct, frozen=True):
    """The value of a monotonic counter before the request raised the counter."""

    value: UInt64


class Activation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An activated workload. Without a quote, the quote's fields are empty.

    Only a workload in simulation joins without a quote. Bytes of the quote are lower-case hex.
    ``names`` are the names in the workload's certificate.
    """

    time: str  # YYYY-MM-DDThh:mm:ss.mmmZ
    marble_type: str
    uuid: str
    names: tuple[str, ...] = ()
    quoted: bool = False
    platform: str = ""  # PPID
    unique_id: str = msgspec.field(default="", name="uniqueID")  # MRENCLAVE
    signer_id: str = msgspec.field(default="", name="signerID")  # MRSIGNER
    mrtd: str = ""  # of a confidential VM, in place of MRENCLAVE and MRSIGNER
    rtmrs: tuple[str, ...] = ()
    measurement: str = ""  # of a confidential VM of AMD
    tcb_status: str = ""
    values: tuple[tuple[str, str], ...] = ()  # of a later kind of evidence
    counted: bool = False  # against MaxActivations
    moved_from: str = ""  # PPID of the former platform of this UUID


class Activations(msgspec.Struct, frozen=True):
    """A page of the audit trail.

    ``first``: the number of the first activation on this page. ``next``: the number of the first
    activation on the next page.
    """

    activations: tuple[Activation, ...]
    first: UInt64
    next: UInt64


class RefusedActivation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """``count`` requested activations, refused for the same reason, the newest at ``time``.

    ``first``: the time of the oldest request. Type and UUID are claims of the newest request, at
    most 100 characters each. ``quoted``: the quote verified and was made for this workload, so the
    measurements are true.
    """

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    first: str = ""
    count: UInt64 = 0
    marble_type: str
    uuid: str = ""
    package: str = ""  # of the type, in the manifest at that time
    quoted: bool = False
    unique_id: str = msgspec.field(default="", name="uniqueID")  # MRENCLAVE
    signer_id: str = msgspec.field(default="", name="signerID")  # MRSIGNER
    mrtd: str = ""
    measurement: str = ""
    tcb_status: str = ""
    values: tuple[tuple[str, str], ...] = ()
    code: str  # of the error, as in metrics and logs
    reason: str
    hint: str = ""


class RefusedActivations(msgspec.Struct, frozen=True):
    """The refusals of one process since its start at ``since``, newest first."""

    refused: tuple[RefusedActivation, ...]
    since: str


class ActivationLimit(msgspec.Struct, frozen=True, rename="camel"):
    """The number of activations of a marble type, and its MaxActivations."""

    activations: UInt64
    max_activations: UInt64


class WorkloadCounters(msgspec.Struct, frozen=True, rename="camel"):
    """The monotonic counters of one workload, by name."""

    marble_type: str
    uuid: str
    counters: dict[str, UInt64]


class Counters(msgspec.Struct, frozen=True):
    """The limits of activations by marble type, and the monotonic counters of some workloads.

    The monotonic counters are of the workloads on one page of the audit trail. Workloads without a
    counter are left out. ``first`` and ``next``: as in ``Activations``.
    """

    limits: dict[str, ActivationLimit]
    workloads: tuple[WorkloadCounters, ...]
    first: UInt64
    next: UInt64


class LivingWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that renews its certificate.

    ``renewed`` is true after the first renewal. ``state``: ``current``, ``renew`` (its type was
    revoked) or ``revoked``.
    """

    marble_type: str
    uuid: str
    platform: str  # hex; empty: no evidence
    ends: str  # YYYY-MM-DDThh:mm:ss.mmmZ: the end of its newest certificate
    renewed: bool  # False: the workload has only activated
    state: str  # "current", "renew" (its type was revoked) or "revoked"


class MarbleRoot(msgspec.Struct, frozen=True):
    """A marble root that workloads trust until ``until``; empty: the root in force."""

    fingerprint: str  # SHA-256 of the certificate, hex
    until: str  # empty: in force


class Workloads(msgspec.Struct, frozen=True):
    """A page of the workloads that renew, in an arbitrary order; and all trusted marble roots.

    ``next``: the text that requests the next page; empty: this is the last page.
    """

    workloads: tuple[LivingWorkload, ...]
    next: str
    roots: tuple[MarbleRoot, ...]


class RevokedWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload with a revoked certificate, listed until a day after the certificate's end.

    ``renews``: the workload may renew with fresh evidence, because only its type was revoked.
    """

    marble_type: str
    uuid: str
    platform: str  # hex; empty: no evidence
    ends: str  # YYYY-MM-DDThh:mm:ss.mmmZ: others accept the certificate until then
    renews: bool  # the workload may renew with fresh evidence: its type was revoked


class RevokedPlatform(msgspec.Struct, frozen=True):
    """A platform whose workloads may not join any more."""

    platform: str  # hex
    time: str
    user: str


class RevocationAnswer(Readable, frozen=True, kw_only=True, rename="camel"):
    """The effect of a revocation at the time of the request.

    ``workloads``: how many workloads have certificates that the coordinator refuses now. Other
    workloads accept each of these certificates until its end; ``ends`` is the latest end.
    """

    message: Unsent[str] = ""  # set by a reader: the envelope's message
    workloads: UInt64 = 0  # number of workloads whose certificates the coordinator refuses now
    # YYYY-MM-DDThh:mm:ss.mmmZ: others accept the last of these certificates until then. Empty: none
    ends: str = ""
    # Has a quorum of witnesses cosigned the revocation? Only with Revocations in AnchorBefore.
    witnessed: Sometimes[bool] = False


class Revocations(msgspec.Struct, frozen=True):
    """The revocations in effect. The update log has the reasons."""

    workloads: tuple[RevokedWorkload, ...]
    platforms: tuple[RevokedPlatform, ...]


# --- data of answers, version 1, where they differ ---


class OldStatusData(msgspec.Struct, frozen=True, rename="camel"):
    """The phase in version 1: the numbers of ``Status``, also as text."""

    status_code: _Phase
    status_message: str = ""


class OldManifestData(Readable, frozen=True):
    """The manifest in version 1, its SHA-256 in hex, and the root key's signature.

    Before the first manifest, ``manifest`` and ``signature`` are null, ``fingerprint`` is empty.
    """

    signature: OrNull[bytes] = msgspec.field(default=b"", name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(default="", name="manifestSignature")
    manifest: OrNull[bytes] = b""


class OldSetManifestData(Readable, frozen=True, omit_defaults=True):
    """The recovery secrets in version 1: ``SetManifestData`` with its fields in opposite order."""

    recovery_keys: dict[str, bytes] = msgspec.field(default={}, name="recoveryKeys")
    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")


# --- data of refusals ---


class Problems(msgspec.Struct, frozen=True):
    """Data of a refusal: all problems of the sent content, such as a manifest."""

    problems: tuple[Problem, ...] = ()
