"""The tree over all leaves of a log, whose root is known at every size."""

from collections.abc import Sequence

from keyhouse.transparency.tree import Frontier, nodes_above


class WholeTree:
    """Holds every node above the hashes of all leaves: twice the memory of these."""

    def __init__(self, hashes: Sequence[bytes]) -> None:
        row = list(hashes)
        self._rows = [row]
        while len(row) > 1:
            row = nodes_above(row)
            self._rows.append(row)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return len(self._rows[0])

    def root(self, size: int) -> bytes:
        """Return the root of the first ``size`` leaves, of which there are so many."""
        roots, first = [], 0
        for level in range(len(self._rows) - 1, -1, -1):
            if size >> level & 1:
                roots.append(self._rows[level][first >> level])
                first += 1 << level
        return Frontier(size, tuple(roots)).root
