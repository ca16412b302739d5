"""Tiles: the tree and its leaves in pieces that never change (C2SP tlog-tiles).

A tile of hashes has up to 256 roots of perfect subtrees of 256**level leaves each, in order. A
bundle has up to 256 leaves, each after its length in two bytes, big-endian. The tiles at the right
edge of a tree are partial. A partial tile of width ``w`` is the beginning of every wider tile with
the same level and index.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from keyhouse.base.byte_reader import ByteReader, LayoutError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.tree import HASH_BYTES, LARGEST, Frontier, Nodes, perfect_root

WIDTH: Final = 256
"""Number of hashes or entries in a full tile or bundle."""

ENTRIES: Final = -1
"""The level of bundles of entries."""

ENTRY_BYTES: Final = 65_535
"""Maximum length in bytes of an entry in a bundle: the length has two bytes."""

_HIGHEST: Final = 63
_NUMBER: Final = "(?:0|[1-9][0-9]?)"
_PATH: Final = (
    rf"(entries|{_NUMBER})/((?:x[0-9]{{3}}/){{0,6}}[0-9]{{3}})(?:\.p/([1-9][0-9]{{0,2}}))?"
)


class Tile(msgspec.Struct, frozen=True):
    """The position of a tile in a log; with the level ``ENTRIES``, the position of a bundle.

    ``width``: the number of hashes or entries; 256 in a full tile.
    """

    level: int
    index: int
    width: int = WIDTH

    @classmethod
    def read(cls, path: str) -> "Tile":
        """Return the tile of a path below ``tile/``, as ``0/x001/234.p/5`` or ``entries/000``.

        A tile has exactly one path. Raises ``LogInvalidError`` if ``path`` is not in this form.
        """
        found = re.fullmatch(_PATH, path)
        if found is None:
            raise LogInvalidError("the path of a part of the log is not the path of a tile")
        level, number, width = found.groups()
        tile = cls(
            ENTRIES if level == "entries" else int(level),
            int(number.replace("x", "").replace("/", "")),
            int(width) if width else WIDTH,
        )
        if tile.path != path or tile.level > _HIGHEST or tile.width > WIDTH:
            raise LogInvalidError("the path of a part of the log is not the path of a tile")
        return tile

    @property
    def path(self) -> str:
        """The path of the tile below ``tile/``."""
        number, rest = f"{self.index % 1000:03d}", self.index // 1000
        while rest:
            number, rest = f"x{rest % 1000:03d}/{number}", rest // 1000
        level = "entries" if self.level == ENTRIES else str(self.level)
        partial = "" if self.width == WIDTH else f".p/{self.width}"
        return f"{level}/{number}{partial}"

    @property
    def full(self) -> "Tile":
        """The tile with the same level and index, and with all of its 256 hashes."""
        return msgspec.structs.replace(self, width=WIDTH)

    def is_in(self, size: int) -> bool:
        """Return whether a tree of ``size`` leaves contains this whole tile."""
        hashes_at_level = size >> (8 * max(self.level, 0))
        return self.index * WIDTH + self.width <= hashes_at_level


def right_edge(size: int) -> Iterator[Tile]:
    """Yield the partial, non-empty tiles of a tree of ``size`` leaves, from level 0 up."""
    level = 0
    while size:
        if width := size % WIDTH:
            yield Tile(level, size // WIDTH, width)
        size, level = size // WIDTH, level + 1


def bundle(entries: Iterable[bytes]) -> bytes:
    """Return the bytes of a bundle of ``entries``, each after its length in two bytes.

    Raises ``LogInvalidError`` for an entry with more than 65,535 bytes.
    """
    parts = []
    for entry in entries:
        if len(entry) > ENTRY_BYTES:
            raise LogInvalidError(f"an entry has more than {ENTRY_BYTES} bytes")
        parts.append(len(entry).to_bytes(2, "big") + entry)
    return b"".join(parts)


def bundled(raw: bytes, width: int, *, whole: bool = True) -> list[bytes]:
    """Return the first ``width`` leaves (bytes) in the bundle ``raw``.

    With ``whole``, the bundle must not contain further leaves. Raises ``LogInvalidError``.
    """
    reader = ByteReader(raw, "big")
    try:
        entries = [reader.framed(2, "entry") for _ in range(width)]
        if whole:
            reader.finish("last entry")
    except LayoutError as fault:
        raise LogInvalidError(f"a bundle of entries is damaged: {fault}") from None
    return entries


def narrowed(raw: bytes, tile: Tile) -> bytes:
    """Return the bytes of ``tile``, the beginning of the wider tile ``raw``.

    ``raw`` is a tile with the same level and index. Raises ``LogInvalidError`` if ``raw`` has fewer
    hashes or leaves than ``tile``.
    """
    if tile.level == ENTRIES:
        return bundle(bundled(raw, tile.width, whole=False))
    found = raw[: HASH_BYTES * tile.width]
    _hashes(found, tile)
    return found


def nodes_of(read: Callable[[Tile], bytes], size: int) -> Nodes:
    """Return a function that reads nodes of the tree of ``size`` leaves from tiles, for proofs.

    ``read`` returns the bytes of a tile. The nodes are not verified: the caller compares a computed
    root with a known root. The returned function raises ``LogInvalidError`` for a tile with a wrong
    length.
    """

    @lru_cache(maxsize=64)
    def hashes(tile: Tile) -> bytes:
        return _hashes(read(tile), tile)

    def node(level: int, index: int) -> bytes:
        tile, first, count = _place_of(level, index, size)
        return perfect_root(hashes(tile)[HASH_BYTES * first : HASH_BYTES * (first + count)])

    return node


def tiles_read(prove: Callable[[Nodes], object], size: int) -> list[Tile]:
    """Return the tiles with the nodes that ``prove`` reads, in the tree of ``size`` leaves.

    A client can fetch these tiles before the real proof. ``prove`` is called with nodes of zeros.
    """
    tiles: dict[Tile, None] = {}

    def node(level: int, index: int) -> bytes:
        tiles[_place_of(level, index, size)[0]] = None
        return bytes(HASH_BYTES)

    prove(node)
    return list(tiles)


def frontier_of(read: Callable[[Tile], bytes], size: int) -> Frontier:
    """Return the frontier of the tree of ``size`` leaves, from the partial tiles at its right edge.

    ``read`` returns the bytes of a tile. Raises ``LogInvalidError`` for a tile with a wrong length,
    and for a size that no tree has.
    """
    if not 0 <= size <= LARGEST:
        raise LogInvalidError("the size of the tree is below 0 or above the maximum")
    roots: list[bytes] = []
    for tile in right_edge(size):
        row = _hashes(read(tile), tile)
        roots[:0] = _perfect_roots(row)
    return Frontier(size, tuple(roots))


def _place_of(level: int, index: int, size: int) -> tuple[Tile, int, int]:
    """Return the tile with the hashes below a node, in a tree of ``size`` leaves.

    ``level`` and ``index`` identify the node. The result also has the index of the first of these
    hashes in the tile, and their number.
    """
    below, height = divmod(level, 8)
    tile, first = divmod(index << height, WIDTH)
    hashes_at_level = (size >> (8 * below)) - tile * WIDTH
    return Tile(below, tile, min(hashes_at_level, WIDTH)), first, 1 << height


def _perfect_roots(row: bytes) -> Iterator[bytes]:
    """Yield the roots of the perfect subtrees over the hashes of a partial tile, largest first."""
    at = 0
    for bit in range(8, -1, -1):
        width_in_bytes = HASH_BYTES << bit
        if len(row) & width_in_bytes:
            yield perfect_root(row[at : at + width_in_bytes])
            at += width_in_bytes


def _hashes(raw: bytes, tile: Tile) -> bytes:
    """Return ``raw``, the hashes of ``tile``. Raises ``LogInvalidError`` for a wrong length."""
    if len(raw) != HASH_BYTES * tile.width:
        raise LogInvalidError(
            f"the tile {tile.path} has {len(raw)} bytes; expected {HASH_BYTES * tile.width}"
        )
    return raw
