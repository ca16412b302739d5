"""Reads a log from tiles that anybody may serve: nothing is returned before it is proven.

Parts have the paths of C2SP tlog-tiles: ``tile/<L>/<N>[.p/<W>]``, ``tile/entries/<N>[.p/<W>]``.
"""

from collections.abc import Callable, Iterator
from typing import Final

from keyhouse.transparency import tree
from keyhouse.transparency.approval import SignedApproval
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import (
    Leaf,
    LogBegun,
    ManifestSet,
    ManifestUpdated,
    PackagesUpdated,
    UpdateProposed,
)
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, nodes_of

Read = Callable[[str], bytes]
"""Returns the part of this path. Raises what its source does if it is not there."""

PIECE: Final = 64 * WIDTH
"""Entries that are proven together, and held at a time."""


def entries_after(
    read: Read, known: tree.Frontier, size: int, root: bytes
) -> Iterator[list[bytes]]:
    """Yield the entries that a tree of ``size`` leaves with ``root`` has after ``known``.

    Each piece is proven to be in this tree before it is yielded, and before the first of them,
    that the tree continues ``known``. Raises ``LogInvalidError``, and what ``read`` raises.
    """
    if known.size > size:
        raise LogInvalidError("the log is smaller than it was before")
    nodes = nodes_of(lambda tile: read(f"tile/{tile.path}"), size)
    _require_in(nodes, known, size, root)
    while known.size < size:
        end = min(size, known.size - known.size % PIECE + PIECE)
        piece = list(entries_between(read, known.size, end, size))
        known = known.extended(map(tree.leaf_hash, piece))
        _require_in(nodes, known, size, root)
        yield piece


def entries_between(read: Read, first: int, end: int, size: int) -> Iterator[bytes]:
    """Yield the entries from ``first`` to the end of the bundle that has ``end`` - 1.

    They are not proven. Raises as ``entries_after``.
    """
    for index in range(first // WIDTH, -(-end // WIDTH)):
        tile = Tile(ENTRIES, index, min(WIDTH, size - index * WIDTH))
        yield from bundled(read(f"tile/{tile.path}"), tile.width)[max(first - index * WIDTH, 0) :]


def _require_in(nodes: tree.Nodes, known: tree.Frontier, size: int, root: bytes) -> None:
    """Require that the tree of ``size`` leaves begins with ``known``."""
    if not known.size:
        return  # every tree continues the empty one
    proof = tree.consistency_proof(nodes, known.size, size) if known.size < size else []
    tree.require_consistent(known.size, size, proof, known.root, root)


def objects_named(leaf: Leaf, read: Callable[[str], bytes | None]) -> Iterator[str]:
    """Yield the names of the objects that ``leaf`` refers to. A log may lack some of them.

    ``read`` returns an object that was yielded before; None: it is not there. A package update is
    named by what its user signed alone. Raises ``LogInvalidError`` if that is not readable.
    """
    fields = ["imported", "quote", "collateral", "approval"]
    if isinstance(leaf, LogBegun | ManifestSet | UpdateProposed | ManifestUpdated):
        fields.append("manifest")
    yield from (name for field in fields if (name := getattr(leaf, field, "") or ""))
    approval = read(leaf.approval) if isinstance(leaf, PackagesUpdated) and leaf.approval else None
    if approval is not None:
        yield SignedApproval.read(approval).approval.manifest
