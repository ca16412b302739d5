"""A Merkle tree for tests. Leaf ``i`` is the number ``i`` in decimal."""

from functools import cached_property

from keyhouse.transparency.tree import Frontier, leaf_hash, node_hash

__all__ = ["Tree"]


class Tree:
    """All perfect subtrees over ``size`` leaves, computed at the first use."""

    def __init__(self, size: int) -> None:
        self._size = size

    @cached_property
    def levels(self) -> list[list[bytes]]:
        """The nodes of each level; the level of the leaves is first."""
        row = [leaf_hash(b"%d" % number) for number in range(self._size)]
        found = [row]
        while len(row) > 1:
            row = [node_hash(row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)]
            found.append(row)
        return found

    def node(self, level: int, index: int) -> bytes:
        return self.levels[level][index]

    def frontier(self, size: int) -> Frontier:
        roots, first = [], 0
        for level in range(size.bit_length() - 1, -1, -1):
            if size >> level & 1:
                roots.append(self.node(level, first >> level))
                first += 1 << level
        return Frontier(size, tuple(roots))

    def root(self, size: int) -> bytes:
        return self.frontier(size).root
