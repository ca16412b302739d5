"""The transparency log of a coordinator, read as an outsider does and verified completely."""

from collections.abc import Callable
from typing import NamedTuple

from keyhouse.authority import is_signed_by_root
from keyhouse.transparency.checkpoint import Checkpoint
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.leaf import Leaf, read_leaf
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, frontier_of
from keyhouse.transparency.tree import Frontier, leaf_hash

__all__ = ["Published", "read_log"]


class Published(NamedTuple):
    """A log that verifies."""

    checkpoint: Checkpoint
    entries: list[bytes]

    @property
    def leaves(self) -> list[Leaf]:
        return [read_leaf(entry) for entry in self.entries]

    @property
    def kinds(self) -> list[str]:
        return [type(leaf).__name__ for leaf in self.leaves]


def read_log(
    read: Callable[[str], bytes], root: bytes, verifier: str, signature: bytes
) -> Published:
    """Return the log whose key the certificate ``root`` (DER) vouches for.

    ``read`` returns ``checkpoint`` and what is below ``tile/``. Every tile of the tree is compared.
    """
    assert is_signed_by_root(root, signature, b"keyhouse log key v1\0" + verifier.encode())
    key = VerifierKey.read(verifier)
    note = SignedNote.read(read("checkpoint"))
    assert verified(note, [key]) == {key: 0}
    checkpoint = Checkpoint.read(note.text)
    assert checkpoint.origin == key.name
    entries: list[bytes] = []
    row: list[bytes] = []
    for first in range(0, checkpoint.size, WIDTH):
        width = min(WIDTH, checkpoint.size - first)
        raw = read(f"tile/{Tile(ENTRIES, first // WIDTH, width).path}")
        entries += bundled(raw, width)
        row = list(map(leaf_hash, entries[first:]))
        assert read(f"tile/{Tile(0, first // WIDTH, width).path}") == b"".join(row)
    frontier = Frontier().extended(map(leaf_hash, entries))
    assert frontier.root == checkpoint.root
    assert frontier_of(lambda tile: read(f"tile/{tile.path}"), checkpoint.size) == frontier
    return Published(checkpoint, entries)
