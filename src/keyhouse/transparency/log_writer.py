"""A growing log: the tiles and bundles at its right edge, until they are stored."""

from collections.abc import Callable, Iterable, Iterator

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.tiles import (
    ENTRIES,
    WIDTH,
    Tile,
    bundle,
    bundled,
    frontier_of,
    right_edge,
)
from keyhouse.transparency.tree import HASH_BYTES, Frontier, leaf_hash, perfect_root

_Place = tuple[int, int]  # level and index of a tile


def edge_of(size: int) -> list[Tile]:
    """Return the partial tiles of a log of ``size`` leaves: ``Growing.at`` reads these tiles."""
    width = size % WIDTH
    return [*right_edge(size), *([Tile(ENTRIES, size // WIDTH, width)] if width else [])]


class Growing:
    """A log that grows in memory: its partial tiles, and complete tiles that are not stored yet.

    After the caller has stored complete tiles, ``drop`` removes them here.
    """

    def __init__(self) -> None:
        self.size = 0
        self._hashed = 0  # number of leaves in the rows; the entries of later leaves are held
        self._entries: dict[int, list[bytes]] = {}
        self._rows: dict[_Place, list[bytes]] = {}

    @classmethod
    def at(cls, frontier: Frontier, read: Callable[[Tile], bytes]) -> "Growing":
        """Return a stored log for further growth, from its frontier and its partial tiles.

        ``read`` returns the bytes of a partial tile. Raises ``LogInvalidError`` if these tiles and
        ``frontier`` contradict each other.
        """
        found = cls()
        found.size = found._hashed = frontier.size
        for tile in right_edge(frontier.size):
            raw = read(tile)
            row = [raw[at : at + HASH_BYTES] for at in range(0, len(raw), HASH_BYTES)]
            found._rows[tile.level, tile.index] = row
        if found.frontier != frontier:
            raise LogInvalidError(
                "the tiles at the right edge of the log do not match its frontier"
            )
        if width := frontier.size % WIDTH:
            last = Tile(ENTRIES, frontier.size // WIDTH, width)
            entries = bundled(read(last), width)
            if list(map(leaf_hash, entries)) != found._rows[0, last.index]:
                raise LogInvalidError("the newest entries of the log do not match its tiles")
            found._entries[last.index] = entries
        return found

    @property
    def frontier(self) -> Frontier:
        """The frontier of the tree over all leaves so far."""
        self._hash()
        return frontier_of(self._read, self.size)

    @property
    def has_complete(self) -> bool:
        """Whether this object holds a complete bundle of 256 leaves, ready to be stored."""
        return len(self._entries) > (self.size % WIDTH > 0)

    def extend(self, entries: Iterable[bytes]) -> None:
        """Append ``entries``, the bytes of leaves, to the tree."""
        for entry in entries:
            self._entries.setdefault(self.size // WIDTH, []).append(entry)
            self.size += 1

    def read(self, tile: Tile) -> bytes | None:
        """Return the bytes of ``tile``; None if the writer does not have all of them.

        The bytes of a narrower tile are the beginning of the stored tile.
        """
        if tile.level == ENTRIES:
            found = self._entries.get(tile.index, [])
            return bundle(found[: tile.width]) if len(found) >= tile.width else None
        self._hash()
        row = self._rows.get((tile.level, tile.index), [])
        return b"".join(row[: tile.width]) if len(row) >= tile.width else None

    def entries(self) -> list[bytes]:
        """Return the entries of all bundles that were not dropped, in order."""
        return [entry for entries in self._entries.values() for entry in entries]

    def tiles(self) -> Iterator[Tile]:
        """Yield all tiles and bundles that were not dropped, each with its present width."""
        self._hash()
        for index, entries in self._entries.items():
            yield Tile(ENTRIES, index, len(entries))
        for (level, index), row in self._rows.items():
            yield Tile(level, index, len(row))

    def drop(self, tiles: Iterable[Tile]) -> None:
        """Remove the complete tiles among ``tiles`` from memory, after the caller stored them."""
        self._hash()
        for tile in tiles:
            if tile.width < WIDTH:
                continue
            if tile.level == ENTRIES:
                self._entries.pop(tile.index, None)
            else:
                self._rows.pop((tile.level, tile.index), None)

    def _hash(self) -> None:
        """Hash the new leaves. A batch costs much less than single leaves."""
        while self._hashed < self.size:
            index, place = divmod(self._hashed, WIDTH)
            new = self._entries[index][place:]
            self._hashed += len(new)
            self._push(0, index, map(leaf_hash, new))

    def _push(self, level: int, index: int, hashes: Iterable[bytes]) -> None:
        """Append ``hashes`` to the tile ``index`` of ``level``.

        If the tile is then complete, append its root to the tile one level up.
        """
        row = self._rows.setdefault((level, index), [])
        row += hashes
        if len(row) == WIDTH:
            self._push(level + 1, index // WIDTH, (perfect_root(b"".join(row)),))

    def _read(self, tile: Tile) -> bytes:
        return b"".join(self._rows[tile.level, tile.index])
