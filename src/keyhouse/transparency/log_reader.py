"""Reads a log from untrusted tiles. Returns leaves, in bytes, only after their proof.

Paths follow C2SP tlog-tiles: ``tile/<L>/<N>[.p/<W>]``, ``tile/entries/<N>[.p/<W>]``.
"""

from collections.abc import Callable, Iterator
from typing import Final

from keyhouse.transparency import tree
from keyhouse.transparency.approval import SignedApproval
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import (
    Leaf,
    LogBegunLeaf,
    ManifestSetLeaf,
    ManifestUpdatedLeaf,
    PackagesUpdatedLeaf,
    UpdateProposedLeaf,
    read_leaf,
)
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, nodes_of

Read = Callable[[str], bytes]
"""Returns the content of a path. Raises the errors of its source if the path does not exist."""

PIECE: Final = 64 * WIDTH
"""Number of entries proven and held at the same time."""


def entries_after(
    read: Read, known: tree.Frontier, size: int, root: bytes
) -> Iterator[list[bytes]]:
    """Yield in pieces the leaves (bytes) that a log has gained since its frontier ``known``.

    ``size`` and ``root`` identify the present tree; ``read`` returns the untrusted file of a path.
    The function proves that the tree continues ``known``. Each piece is proven to be in the tree
    before the function yields the piece. Raises ``LogInvalidError``, and the errors of ``read``.
    """
    if known.size > size:
        raise LogInvalidError(f"the log has {size} leaves; it had {known.size} leaves before")
    nodes = nodes_of(lambda tile: read(f"tile/{tile.path}"), size)
    _require_in(nodes, known, size, root)
    while known.size < size:
        end = min(size, known.size - known.size % PIECE + PIECE)
        piece = list(entries_between(read, known.size, end, size))
        known = known.extended(map(tree.leaf_hash, piece))
        _require_in(nodes, known, size, root)
        yield piece


def entries_between(read: Read, first: int, end: int, size: int) -> Iterator[bytes]:
    """Yield the leaves (bytes) from number ``first`` on, up to the end of a bundle.

    The last bundle is the bundle with the leaf ``end`` - 1. The leaves are not proven to be in the
    tree of ``size`` leaves. ``read`` returns the untrusted file of a path. Raises
    ``LogInvalidError`` for a damaged bundle, and the errors of ``read``.
    """
    for index in range(first // WIDTH, -(-end // WIDTH)):
        tile = Tile(ENTRIES, index, min(WIDTH, size - index * WIDTH))
        yield from bundled(read(f"tile/{tile.path}"), tile.width)[max(first - index * WIDTH, 0) :]


def _require_in(nodes: tree.Nodes, known: tree.Frontier, size: int, root: bytes) -> None:
    """Verify that the tree of ``size`` leaves and ``root`` continues the frontier ``known``."""
    if not known.size:
        return  # every tree continues the empty tree
    proof = tree.consistency_proof(nodes, known.size, size) if known.size < size else []
    tree.require_consistent(known.size, size, proof, known.root, root)


def objects_named(leaf: Leaf, read: Callable[[str], bytes | None]) -> Iterator[str]:
    """Yield the names of the objects in ``leaf``. A log may lack some of these objects.

    For a package update, only the signed approval names the uploaded object. So the function reads
    the approval: ``read`` returns an object by a name that was yielded before, or None if the log
    lacks the object. Raises ``LogInvalidError`` for an invalid approval.
    """
    fields = ["imported", "quote", "collateral", "approval"]
    if isinstance(leaf, LogBegunLeaf | ManifestSetLeaf | UpdateProposedLeaf | ManifestUpdatedLeaf):
        fields.append("manifest")
    yield from (name for field in fields if (name := getattr(leaf, field, "") or ""))
    approval = (
        read(leaf.approval) if isinstance(leaf, PackagesUpdatedLeaf) and leaf.approval else None
    )
    if approval is not None:
        yield SignedApproval.read(approval).approval.manifest


def known_leaf(raw: bytes) -> Leaf | None:
    """Return the leaf in ``raw``; None for a kind that this version does not know."""
    try:
        return read_leaf(raw)
    except LogInvalidError:
        return None
