"""The trusted state: a frozen value in one of three phases.

A phase has only the fields that exist in it, so no field is "a manifest or None". All fields are
plain bytes and values. Parsed keys, permissions and encoded answers are caches outside the state
(``policy``).
"""

from enum import StrEnum

import msgspec
from immutables import Map
from msgspec.structs import replace

from keyhouse.attestation import Mark
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.base.secret import Secret
from keyhouse.transparency.tree import LARGEST, Frontier

MarbleInstance = tuple[str, str]
"""Marble type and UUID (36 characters, lower case) of a workload."""

Counters = Map[MarbleInstance, Map[str, int]]
"""The monotonic counters of each workload, by name."""


class AcceptingManifest(msgspec.Struct, frozen=True):
    """No manifest is set (state 2 of the interface). The state is in memory only."""

    keys: CoordinatorKeys
    note: str = ""  # text: why a former state is lost; empty: no former state


class Recovering(msgspec.Struct, frozen=True):
    """A journal exists, but its data key cannot be unsealed (state 1 of the interface).

    The state is in memory only.
    """

    keys: CoordinatorKeys  # temporary, until the recovery
    reason: str  # text: why the key cannot be unsealed
    recovery_index: bytes = (
        b""  # the file beside the journal; untrusted, so it may only cause a refusal
    )


class PendingUpdate(msgspec.Struct, frozen=True):
    """A full update without all required acknowledgements."""

    manifest: bytes  # exactly as uploaded
    users: tuple[str, ...]  # users who may acknowledge, fixed at the initiation; sorted
    needed: int  # required number of acknowledgements
    acknowledged: tuple[str, ...]  # users who have acknowledged, sorted

    @property
    def missing_users(self) -> tuple[str, ...]:
        """The users who may still acknowledge. Their number may be larger than ``missing``."""
        return tuple(user for user in self.users if user not in self.acknowledged)

    @property
    def missing(self) -> int:
        """The number of users who still have to acknowledge the update."""
        return max(0, self.needed - len(self.acknowledged))

    def acknowledged_by(self, user: str) -> "PendingUpdate":
        """Return the update with the acknowledgement of ``user``. A repetition has no effect."""
        users = tuple(sorted({*self.acknowledged, user}))
        return replace(self, acknowledged=users)


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that serves this journal and may receive a new data key. All fields are public."""

    instance: bytes
    signing: bytes  # public signing key (Ed25519), 32 bytes
    kem: bytes  # public key to seal data keys to, 1,216 bytes
    machine: bytes  # PPID, or CHIP_ID of AMD
    unique_id: bytes  # MRENCLAVE, or SHA-256 of a confidential VM's identity; empty: unknown
    signer_id: bytes = b""  # this and the next two: of an enclave only
    product_id: int = 0
    security_version: int = 0
    tcb_status: str = ""  # of its platform at its start; empty: unknown, or AMD
    level: int = 1  # level of the events that the process reads


class PublicLog(msgspec.Struct, frozen=True):
    """The transparency log: its key, and the frontier that its tree needs to grow."""

    key: Secret  # Ed25519, 32 bytes
    verifier: str  # C2SP verifier key; its name is the origin
    signature: bytes  # by the root key over ``verifier``, DER
    frontier: Frontier = Frontier()
    decided: int = 0  # a head of at least this size covers all decisions
    former: tuple[str, ...] = ()  # policies of former witnesses, who must still cosign

    @property
    def deciding(self) -> "PublicLog":
        """Return the log after a decision, before the decision's leaf is appended.

        Until then no checkpoint covers all decisions. So every signed approval is outdated.
        """
        return replace(self, decided=LARGEST)

    @property
    def origin(self) -> str:
        """The name of the log: the first line of each checkpoint."""
        return self.verifier.partition("+")[0]


class LineItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the line of the root, with the hashes of the objects that prove the entry."""

    entry: bytes  # final bytes (``transparency.line``)
    quote: str = ""  # SHA-256, hex; empty: the entry only informs
    collateral: str = ""  # SHA-256, hex; empty: not available at the time


class Lineage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The certificates of a workload from one activation on. All fields are public."""

    marble_type: str
    uuid: str  # 36 characters, lower case
    platform: bytes  # PPID or CHIP_ID of the newest evidence; empty: none
    key: bytes  # SHA-256 of the newest public key; only this key reads secrets
    end: int  # end of its certificate: microseconds since 1970, UTC
    before: bytes = b""  # SHA-256 of the key before; empty: the coordinator made the only key
    standing: str = ""  # a ``Standing``; empty: current


class Standing(StrEnum):
    """The effect of a revocation, or of a restored backup, on a lineage."""

    RENEW = "renew"  # the workload has to prove itself again
    RESTORED = "restored"  # the same, with any key: the state may lack the newest key
    REVOKED = "revoked"  # the lineage has ended


class FormerRoot(msgspec.Struct, frozen=True):
    """A marble root before an update. Workloads still trust its certificates for some time."""

    certificate: bytes  # DER
    until: int  # microseconds since 1970, UTC


class PlatformRevocation(msgspec.Struct, frozen=True):
    """A machine revoked by a user: no workload on this machine may activate or renew."""

    platform: bytes  # PPID or CHIP_ID
    time: int  # of the revocation: microseconds since 1970, UTC
    user: str


class Running(msgspec.Struct, frozen=True):
    """The state with a manifest in force. The interface numbers this phase 3."""

    keys: CoordinatorKeys
    platform: str  # kind of platform, fixed by the first manifest
    manifest: bytes  # exactly as uploaded: fingerprint and signature cover these bytes
    signature: bytes  # by the root key over ``manifest``, DER
    security_versions: Map[str, int]  # raised by package updates; replace those of the manifest
    secrets: Map[str, StoredSecret]  # generated shared secrets, and uploaded secrets
    previous: Map[str, StoredSecret]  # values before the last update
    recovery: RecoveryMaterial
    time: int  # newest journalled time: microseconds since 1970, UTC
    previous_root_secret: Secret  # before the last rotation
    previous_sizes: Map[str, int]  # bits of per-marble keys, as ``.Previous`` derives them
    pending: PendingUpdate | None
    instance: bytes  # random id of the serving process; makes forks diverge
    activations: Map[str, int] = Map()  # by marble type with a limit; never reset
    counters: Counters = Map()  # never deleted
    collateral_marks: Map[str, Mark] = Map()  # newest collateral of verified quotes
    members: tuple[Member, ...] = ()  # processes that share the store, now or before; newest last
    public_log: PublicLog | None = (
        None  # None: a journal of an older version, before its first start
    )
    line: tuple[LineItem, ...] = ()  # the line of the root; empty: a journal of an older version
    lineages: Map[bytes, Lineage] = Map()  # by id, 16 random bytes
    former_roots: tuple[FormerRoot, ...] = ()  # oldest first
    revoked_platforms: tuple[PlatformRevocation, ...] = ()  # oldest first
    shares_flush: bool = False  # True: later records may not be durable yet


def counter_of(state: Running, marble: MarbleInstance, name: str) -> int:
    """Return the value of the counter ``name`` of the workload ``marble``; 0 if never set."""
    return state.counters.get(marble, _NO_COUNTERS).get(name, 0)


_NO_COUNTERS: Map[str, int] = Map()


State = AcceptingManifest | Recovering | Running
