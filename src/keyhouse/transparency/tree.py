"""Merkle trees of RFC 6962 with SHA-256: hashes, growth, and proofs.

Leaf ``i`` of ``n`` with the bytes ``entry`` has the hash SHA-256(0x00 || entry). A node has
SHA-256(0x01 || left || right). The different first bytes keep a node from passing for a leaf. All
hashes have 32 bytes. Sizes and indexes are below 2**63, as in all software for such logs.

The root is a commitment to all leaves and to their order. Two proofs use the root without the other
leaves: an inclusion proof shows that a leaf is in the tree, and a consistency proof shows that a
tree continues a smaller tree. Each has about log2(n) hashes.

A tree grows from its frontier: the roots of the largest perfect subtrees, from left to right. Sizes
of these subtrees are the bits of ``n``, so a new leaf merges subtrees as a binary counter carries.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from keyhouse.transparency.errors import LogInvalidError

HASH_BYTES: Final = 32  # of SHA-256
LARGEST: Final = 2**63 - 1
"""The largest size of a tree."""

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""

_sha256: Final = hashlib.sha256
_NODE: Final = b"\1"

Nodes = Callable[[int, int], bytes]
"""Returns the root of a perfect subtree of 2**level leaves, the subtree with number ``index``."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of the leaf with the bytes ``entry``."""
    return _sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above the nodes ``left`` and ``right``."""
    return _sha256(_NODE + left + right).digest()


def perfect_root(hashes: bytes) -> bytes:
    """Return the root of the perfect tree over ``hashes``. Their number must be a power of two."""
    row = hashes
    while len(row) > HASH_BYTES:
        pairs = range(0, len(row), 2 * HASH_BYTES)
        row = b"".join([_sha256(_NODE + row[at : at + 2 * HASH_BYTES]).digest() for at in pairs])
    return row


class Frontier(msgspec.Struct, frozen=True):
    """The part of a tree that is necessary for growth: the size, and the roots of perfect subtrees.

    ``roots``: the largest subtree first, a root for each bit of the size.
    """

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def extended(self, hashes: Iterable[bytes]) -> "Frontier":
        """Return the frontier of the tree with further leaves; ``hashes``: the hashes of these."""
        size, roots = self.size, list(self.roots)
        for each in hashes:
            grown, rest = each, size
            while rest & 1:
                grown = node_hash(roots.pop(), grown)
                rest >>= 1
            roots.append(grown)
            size += 1
        return Frontier(size, tuple(roots))

    @property
    def root(self) -> bytes:
        """The root hash over all leaves of the tree."""
        if not self.roots:
            return EMPTY_ROOT
        computed = self.roots[-1]
        for left in self.roots[-2::-1]:
            # Node_hash without a call, because every answer needs the root.
            computed = _sha256(_NODE + left + computed).digest()
        return computed


def root_of(nodes: Nodes, size: int) -> bytes:
    """Return the root over the first ``size`` leaves. ``nodes`` returns the hash of a node.

    Raises ``LogInvalidError`` for a size that no tree has.
    """
    if not 0 <= size <= LARGEST:
        raise LogInvalidError("the size of the tree is below 0 or above the maximum")
    return range_root(nodes, 0, size) if size else EMPTY_ROOT


def consistency_proof(nodes: Nodes, old: int, size: int) -> list[bytes]:
    """Return the proof that the tree of ``size`` leaves continues the tree of ``old`` leaves.

    ``nodes`` returns the hashes of nodes in the tree of ``size`` leaves. Raises ``LogInvalidError``
    unless 1 <= ``old`` <= ``size``. Source: RFC 6962, 2.1.2.
    """
    _require_sizes(old, size)
    proof: list[bytes] = []
    first, end = 0, size
    while old != end:
        middle = first + split_of(end - first)
        if old <= middle:
            proof.append(range_root(nodes, middle, end))
            end = middle
        else:
            proof.append(range_root(nodes, first, middle))
            first = middle
    if first:
        proof.append(range_root(nodes, first, end))
    return proof[::-1]


def require_consistent(
    old: int, size: int, proof: Sequence[bytes], old_root: bytes, root: bytes
) -> None:
    """Verify by ``proof`` that the tree of ``size`` leaves continues the tree of ``old`` leaves.

    Raises ``LogInvalidError`` for an invalid proof, and for an empty old tree: every tree continues
    the empty tree, so no proof exists.
    Source: RFC 9162, 2.1.4.2.
    """
    _require_sizes(old, size)
    if old == size:
        if proof or not hmac.compare_digest(old_root, root):
            raise does_not_hold()
        return
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    if not path:
        raise does_not_hold()
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    before = after = path[0]
    for each in path[1:]:
        if last == 0:
            raise does_not_hold()
        if at & 1 or at == last:
            before, after = node_hash(each, before), node_hash(each, after)
            at, last = above(at, last)
        else:
            after = node_hash(after, each)
        at, last = at >> 1, last >> 1
    equal = hmac.compare_digest(before, old_root) & hmac.compare_digest(after, root)
    if last or not equal:
        raise does_not_hold()


def above(at: int, last: int) -> tuple[int, int]:
    """Climb from a node to its nearest ancestor that is a right child, or the first of its level.

    ``at`` and ``last`` are the indexes of the node, and of the last node on its level. Returns both
    indexes for the level of the ancestor. For a right child, the result is ``at`` and ``last``. The
    verification of a proof uses this step. Source: RFC 9162, 2.1.3.2 and 2.1.4.2.
    """
    while at and not at & 1:
        at, last = at >> 1, last >> 1
    return at, last


def _require_sizes(old: int, size: int) -> None:
    if not 1 <= old <= size <= LARGEST:
        raise LogInvalidError(f"a tree of {size} leaves cannot continue a tree of {old} leaves")


def split_of(leaves: int) -> int:
    """Return the largest power of two below ``leaves``."""
    return 1 << ((leaves - 1).bit_length() - 1)


def range_root(nodes: Nodes, first: int, end: int) -> bytes:
    """Return the root over the leaves from ``first`` to ``end`` - 1.

    ``nodes`` returns the hashes of nodes. The range must be a range of a proof: RFC 6962 splits the
    tree into such ranges.
    """
    leaves = end - first
    if leaves & (leaves - 1) == 0:
        level = leaves.bit_length() - 1
        return nodes(level, first >> level)
    middle = first + split_of(leaves)
    return node_hash(range_root(nodes, first, middle), range_root(nodes, middle, end))


def does_not_hold() -> LogInvalidError:
    """Return the error for a proof that does not verify."""
    return LogInvalidError("the proof does not lead to the stated root")
