"""The world: states of coordinators, certificates of parties, and a record of the past."""

import hashlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.samples.authority import coordinator_keys
from support.samples.deployment import NOW
from support.samples.signing_request import signing_request

from keyhouse.authority import (
    CoordinatorKeys,
    MarbleLeaf,
    certify_marble,
    read_signing_request,
    renew_intermediate,
)
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.state import Running
from keyhouse.wire.lineage import ID_SIZE, LineageFacts

LIFETIME: Final = 3600 * 1_000_000
"""Microseconds of a certificate: ``ValidMinutes`` by default."""

FIRST: Final = "first 0"
"""The first marble root of the deployment."""


class Cert(NamedTuple):
    """A certificate: its marble root, lineage, workload and key, by name, and its times."""

    root: str
    lineage: str
    workload: str
    key: str
    begin: int
    end: int


@dataclass(frozen=True)
class Site:
    """A coordinator: ``live``, or a copy on the host. ``state`` does not count for equality."""

    name: str
    manifest: str
    root: str
    facts: tuple[Any, ...]
    state: Running = field(compare=False, repr=False)

    @classmethod
    def of(cls, name: str, manifest: str, root: str, state: Running) -> "Site":
        """Return a coordinator with ``state``."""
        parts = (state.lineages, state.former_roots, state.revoked_platforms, state.activations)
        return cls(name, manifest, root, parts, state)


class Holder(NamedTuple):
    """A party with certificates and their keys, newest last."""

    name: str
    code: str  # the version of its enclave; empty: no enclave
    machine: bytes
    certs: tuple[Cert, ...] = ()
    begun: int = 0  # activations
    made: int = 0  # keys; the next key is in flight

    @property
    def flight(self) -> str:
        """The key for the next renewal."""
        return f"{self.name}{self.made}"


class World(NamedTuple):
    """The facts that decide the next actions, and the facts for invariants."""

    live: Site
    w: Holder
    t: Holder
    x: Holder
    now: int = NOW
    backup: Site | None = None
    copy: Site | None = None  # runs on the host
    is_late_copy: bool = False  # does the copy begin after the last loss of trust?
    behind: Site | None = None  # the view of the second replica
    activated: int = 0  # activations by the live deployment
    proven: frozenset[tuple[str, str]] = frozenset()  # key, root: renewed with evidence, at live
    ended: frozenset[str] = frozenset()  # keys replaced by a renewal at live
    revoked: frozenset[str] = frozenset()  # lineages
    machines: frozenset[bytes] = frozenset()  # revoked
    doubted: frozenset[str] = frozenset()  # keys at the revocation of their type
    issued: frozenset[Cert] | None = None  # by live since the last loss of trust; None: no loss
    leaked: frozenset[str] = frozenset()  # marble roots whose key a dismissed replica knows
    dismissed: bool = False  # does the manifest in force omit Mallory?
    wronged: bool = False  # has Mallory changed the live deployment later?
    rivals: bool = False  # somebody else renewed the lineage of W
    restored: bool = False

    @property
    def holders(self) -> tuple[Holder, ...]:
        """All parties with certificates."""
        return (self.w, self.t, self.x)


@cache
def keys_of(root: str) -> CoordinatorKeys:
    """Return the keys of a coordinator with this marble root."""
    first = coordinator_keys()
    return first if root == FIRST else renew_intermediate(first, moment(NOW))


@cache
def public_key(name: str) -> bytes:  # noqa: ARG001 each name has a key
    """Return the public key with this name (SubjectPublicKeyInfo, DER)."""
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@cache
def hash_of(key: str) -> bytes:
    """Return the hash of the key with this name."""
    return hashlib.sha256(public_key(key)).digest()


@cache
def lineage_id(name: str) -> bytes:
    """Return the id of the lineage with this name."""
    return hashlib.sha256(name.encode()).digest()[:ID_SIZE]


@cache
def uuid_of(workload: str) -> str:
    """Return the UUID of the workload with this name."""
    return str(UUID(bytes=hashlib.sha256(workload.encode()).digest()[:16]))


@cache
def der_of(cert: Cert) -> bytes:
    """Return the bytes of a certificate, as the product issues it."""
    keys = keys_of(cert.root)
    leaf = MarbleLeaf(
        UUID(uuid_of(cert.workload)),
        "web",
        public_key(cert.key),
        LineageFacts(lineage_id(cert.lineage), "sgx", "UpToDate", cert.begin // 1_000_000),
    )
    times = {"now": moment(cert.begin), "end": moment(cert.end)}
    return certify_marble(keys, read_signing_request(signing_request(), keys), leaf, **times)
