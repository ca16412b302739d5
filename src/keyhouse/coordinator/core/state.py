"""The trusted state: one frozen value, in one of three phases.

A phase holds only what it has: there is no "manifest or nothing". All of it is plain bytes and
values; parsed keys, permissions and encoded answers are caches derived from it (``policy``).
"""

from collections.abc import Iterable

import msgspec
from immutables import Map
from msgspec.structs import replace

from keyhouse.attestation import Mark
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.base.secret import Secret
from keyhouse.transparency.tree import LARGEST, Frontier, leaf_hash

MarbleInstance = tuple[str, str]
"""Marble type and UUID (36 characters, lower case) of one workload."""

Counters = Map[MarbleInstance, Map[str, int]]
"""The monotonic counters of each workload, by name."""


class AcceptingManifest(msgspec.Struct, frozen=True):
    """Nothing is stored yet: the first manifest is awaited (state 2). Lives in memory only."""

    keys: CoordinatorKeys
    note: str = ""  # for people: why a former state is no longer stored; empty: there was none


class Recovering(msgspec.Struct, frozen=True):
    """There is a journal whose key cannot be unsealed (state 1). Lives in memory only."""

    keys: CoordinatorKeys  # temporary, replaced by the recovered ones
    reason: str  # why the key could not be unsealed, for people
    recovery_index: bytes = b""  # the file beside the journal; not proven, it may only refuse


class Pending(msgspec.Struct, frozen=True):
    """A full update that waits for acknowledgements."""

    manifest: bytes  # exactly as uploaded
    users: tuple[str, ...]  # who may acknowledge, frozen when it was initiated; sorted
    needed: int  # how many of them have to
    acknowledged: tuple[str, ...]  # who has, sorted

    @property
    def missing_users(self) -> tuple[str, ...]:
        """Who may acknowledge and has not; may be more than ``missing``."""
        return tuple(user for user in self.users if user not in self.acknowledged)

    @property
    def missing(self) -> int:
        """How many acknowledgements are still needed."""
        return max(0, self.needed - len(self.acknowledged))

    def acknowledged_by(self, user: str) -> "Pending":
        """Return this with the acknowledgement of ``user``, given once or again."""
        given = tuple(sorted({*self.acknowledged, user}))
        return replace(self, acknowledged=given)


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that serves this journal and can be told of a new data key. All of it is public."""

    instance: bytes
    signing: bytes  # key of its signatures (Ed25519), 32 bytes
    kem: bytes  # key that others seal to, 1,216 bytes
    machine: bytes  # PPID, or CHIP_ID of AMD
    unique_id: bytes  # MRENCLAVE, or SHA-256 of who a confidential VM is; empty: not known
    signer_id: bytes = b""  # of an enclave, as the next two
    product_id: int = 0
    security_version: int = 0
    tcb_status: str = ""  # of its platform when it started; empty: not known, or of AMD
    level: int = 1  # of events that it reads


class PublicLog(msgspec.Struct, frozen=True):
    """The transparency log: its key, and all that its tree needs to grow."""

    key: Secret  # Ed25519, 32 bytes
    verifier: str  # C2SP verifier key; its name is the origin
    signature: bytes  # by the root key over ``verifier``, DER
    frontier: Frontier = Frontier()
    decided: int = 0  # leaves that a head has to cover to have every decision in it
    former: tuple[str, ...] = ()  # policies of witnesses whose quorums have to cosign it first

    @property
    def deciding(self) -> "PublicLog":
        """The log while it lacks the leaf of a decision, or its first ones: no head has that."""
        return replace(self, decided=LARGEST)

    def with_leaves(self, leaves: Iterable[bytes]) -> "PublicLog":
        """Return the log with ``leaves``, those of a decision among them if there was one."""
        frontier = self.frontier.extended(map(leaf_hash, leaves))
        decided = frontier.size if self.decided == LARGEST else self.decided
        return replace(self, frontier=frontier, decided=decided)

    @property
    def origin(self) -> str:
        """The name of the log, the first line of each checkpoint."""
        return self.verifier.partition("+")[0]


class LineItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the line of the root, and the objects beside the log that prove it."""

    entry: bytes  # final bytes (``transparency.line``)
    quote: str = ""  # SHA-256, hex; empty: an entry that informs only
    collateral: str = ""  # SHA-256, hex; empty: none was at hand


class Running(msgspec.Struct, frozen=True):
    """A manifest is enforced (state 3)."""

    keys: CoordinatorKeys
    platform: str  # kind of platform, fixed by the first manifest
    manifest: bytes  # exactly as uploaded: fingerprint and signature cover these bytes
    signature: bytes  # by the root key over ``manifest``, DER
    security_versions: Map[str, int]  # raised by package updates, over those of the manifest
    secrets: Map[str, StoredSecret]  # generated shared ones, and uploaded ones
    previous: Map[str, StoredSecret]  # values before the last update
    recovery: RecoveryMaterial
    time: int  # newest journalled time: microseconds since 1970, UTC
    previous_root_secret: Secret  # before the last rotation
    previous_sizes: Map[str, int]  # bits of per-marble keys, as ``.Previous`` derives them
    pending: Pending | None
    instance: bytes  # random id of the process that serves this journal, which makes forks diverge
    activations: Map[str, int] = Map()  # by marble type, of those that had a limit; never reset
    counters: Counters = Map()  # never deleted
    collateral_marks: Map[str, Mark] = Map()  # newest collateral that a quote verified with
    members: tuple[Member, ...] = ()  # who shares the store, or did; the newest last
    public_log: PublicLog | None = None  # None: the journal of an older version, not started yet
    line: tuple[LineItem, ...] = ()  # of the root; empty: the journal of an older version


def counter_of(state: Running, marble: MarbleInstance, name: str) -> int:
    """Return the value of a monotonic counter; 0 if it was never set."""
    return state.counters.get(marble, _NO_COUNTERS).get(name, 0)


_NO_COUNTERS: Map[str, int] = Map()


State = AcceptingManifest | Recovering | Running
