"""Proofs that a leaf is in a tree (RFC 6962), for people and for the verifier of evidence files."""

import hmac
from collections.abc import Sequence

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.tree import (
    LARGEST,
    Nodes,
    above,
    does_not_hold,
    node_hash,
    range_root,
    split_of,
)


def nodes_above(row: Sequence[bytes]) -> list[bytes]:
    """Return the hashes of the tree level above ``row``, a row of hashes.

    The last hash of an odd row has no partner, and so no node above.
    """
    pairs = zip(row[::2], row[1::2], strict=False)
    return [node_hash(left, right) for left, right in pairs]


def inclusion_proof(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """Return the proof that leaf ``index`` is in the tree of ``size`` leaves (RFC 6962, 2.1.1).

    ``nodes`` returns the hash of a node. Raises ``LogInvalidError`` if the leaf does not exist.
    """
    if not 0 <= index < size <= LARGEST:
        raise LogInvalidError(f"there is no leaf {index} in a tree of {size} leaves")
    proof: list[bytes] = []
    first, end = 0, size
    while end - first > 1:
        middle = first + split_of(end - first)
        if index < middle:
            proof.append(range_root(nodes, middle, end))
            end = middle
        else:
            proof.append(range_root(nodes, first, middle))
            first = middle
    return proof[::-1]


def require_included(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Verify that the leaf with the hash ``leaf`` has the number ``index``, from 0, in the tree.

    ``size`` and ``root`` identify the tree. Raises ``LogInvalidError`` if ``proof`` does not show
    this. Source: RFC 9162, 2.1.3.2.
    """
    if not 0 <= index < size <= LARGEST:
        raise LogInvalidError(f"there is no leaf {index} in a tree of {size} leaves")
    computed, at, last = leaf, index, size - 1
    for each in proof:
        if last == 0:
            raise does_not_hold()
        if at & 1 or at == last:
            computed = node_hash(each, computed)
            at, last = above(at, last)
        else:
            computed = node_hash(computed, each)
        at, last = at >> 1, last >> 1
    if last or not hmac.compare_digest(computed, root):
        raise does_not_hold()
