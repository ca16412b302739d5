"""The data of the coordinator's answers, as typed values."""

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.wire.jsonreader import UInt64

__all__ = [
    "Activation",
    "Activations",
    "CounterValue",
    "LogData",
    "LogEntry",
    "ManifestData",
    "Pending",
    "QuoteData",
    "SecretObject",
    "SecretsData",
    "SetData",
    "SignedQuote",
    "Status",
    "UpdateAnswer",
]


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/status``: 1 recovery, 2 accepting a manifest, 3 running."""

    code: UInt64
    message: str = ""


class QuoteData(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/quote``."""

    cert: str  # PEM: intermediate, then root
    quote: bytes


class ManifestData(msgspec.Struct, frozen=True):
    """Data of ``GET /api/v2/manifest``."""

    signature: bytes = msgspec.field(name="manifestSignatureRootECDSA")
    fingerprint: str = msgspec.field(name="manifestFingerprint")
    manifest: bytes


class SetData(msgspec.Struct, frozen=True):
    """Data of ``POST /api/v2/manifest``: key name to encrypted share."""

    recovery_secrets: dict[str, bytes] = msgspec.field(default={}, name="RecoverySecrets")


class SecretObject(msgspec.Struct, frozen=True, rename="camel"):
    """A secret as the coordinator shows it. ``None``: a user has not uploaded it yet."""

    type: str
    size: UInt64 = 0  # bits
    shared: bool = False
    user_defined: bool = False
    cert: bytes = b""  # DER
    valid_for: UInt64 = 0  # days
    private: Secret | None = None
    public: Secret | None = None


class SecretsData(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/secrets``."""

    secrets: dict[str, SecretObject]


class LogData(msgspec.Struct, frozen=True, rename="camel"):
    """Data of ``GET /api/v2/update``."""

    update_log: tuple[str, ...] = ()


class LogEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the update log. ``text`` is the whole JSON text, with all its keys."""

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    update: str = ""
    user: str = ""
    text: str = ""


class UpdateAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """How far an update has come. With nothing missing it is in force."""

    missing_acknowledgments: UInt64
    missing_users: tuple[str, ...] = ()  # who may still agree; may be more than are needed
    recovery_secrets: dict[str, bytes] = {}  # new encrypted shares by key name: kept first of all
    message: str = ""  # in the coordinator's words: warnings, and what it does to the users

    @property
    def applied(self) -> bool:
        """Whether the update is in force."""
        return self.missing_acknowledgments == 0


class Pending(msgspec.Struct, frozen=True, rename="camel"):
    """An update that waits for acknowledgements."""

    manifest: bytes  # exactly these bytes have to be acknowledged
    missing_users: tuple[str, ...] = ()
    message: str = ""


class SignedQuote(msgspec.Struct, frozen=True, rename="camel"):
    """What the root key has signed of a quote: ``base64(quote)`` and then ``tcb_status``."""

    tcb_status: str
    signature: bytes = msgspec.field(name="verificationSignature")  # ECDSA, ASN.1 DER


class CounterValue(msgspec.Struct, frozen=True):
    """Data of ``POST /api/v2/monotonic-counter``: the value before the call."""

    value: UInt64


class Activation(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that was activated. Without a quote, in simulation, nothing is known of it."""

    time: str = ""  # YYYY-MM-DDThh:mm:ss.mmmZ
    marble_type: str = ""
    uuid: str = ""
    names: tuple[str, ...] = ()  # in the certificate that it got
    quoted: bool = False
    platform: str = ""  # PPID, hex, as the next two
    unique_id: str = ""  # MRENCLAVE
    signer_id: str = ""  # MRSIGNER
    tcb_status: str = ""
    counted: bool = False  # against MaxActivations
    moved_from: str = ""  # PPID of the platform that had this UUID before


class Activations(msgspec.Struct, frozen=True):
    """A page of the audit trail: activations number ``first`` up to, without, ``next``."""

    activations: tuple[Activation, ...]
    first: UInt64
    next: UInt64
