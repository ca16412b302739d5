"""Makes an evidence file of a log, from its parts as anyone serves them."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence

from keyhouse.base.progress import advance, begin
from keyhouse.evidence.bundle import MEDIA_TYPE, Entry, Evidence, Head, Hidden, LogKey
from keyhouse.evidence.whole_tree import WholeTree
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.checkpoint import Checkpoint
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.leaf import object_name, read_leaf
from keyhouse.transparency.naming import objects_named
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, nodes_of
from keyhouse.transparency.tree import inclusion_proof, leaf_hash, require_included

Parts = Callable[[str], bytes | None]
"""Returns ``tile/...`` or ``object/...`` of a log; None: it has no such part."""


def collect(
    parts: Parts,
    *,
    made: int,
    certificates: tuple[bytes, bytes],
    key: LogKey,
    note: bytes,
    head: Head,
    collateral: bytes,
    earlier: Sequence[str] = (),
    hide_anchors: bool = False,
) -> Evidence:
    """Return the evidence of the log that ``note`` is the checkpoint of.

    ``certificates``: the root and the intermediate. ``collateral`` is what ``head`` names.
    ``earlier``: checkpoints of the same log, for the times of their witnesses. Raises
    ``LogInvalidError`` if the key has not signed ``note``, the entries are not those of a
    checkpoint, or an object is another.
    """
    signed = SignedNote.read(note)
    verified(signed, [VerifierKey.read(key.key)])
    checkpoint = Checkpoint.read(signed.text)
    entries = entries_of(parts, checkpoint)
    objects = {object_name(collateral): collateral}
    said = [read_leaf(entry) for entry in entries]
    begin("fetching objects", len(said))
    for leaf in said:
        for name in objects_named(leaf, objects.get):
            if name not in objects:
                objects |= _object(parts, name)
        advance(1)
    shown: list[Entry] = [
        Hidden(leaf_hash(entry)) if hide_anchors and isinstance(leaf, leaves.Anchor) else entry
        for entry, leaf in zip(entries, said, strict=True)
    ]
    root, intermediate = certificates
    return Evidence(
        media_type=MEDIA_TYPE,
        made=made,
        origin=checkpoint.origin,
        root=root,
        intermediate=intermediate,
        log=key,
        head=head,
        checkpoints=(*_continued(earlier, entries, checkpoint), note.decode()),
        entries=tuple(shown),
        objects=objects,
    )


def entries_of(parts: Parts, checkpoint: Checkpoint) -> list[bytes]:
    """Return all entries of the tree of ``checkpoint``.

    Raises ``LogInvalidError`` if they are not there, or are those of another tree.
    """
    begin("fetching entries", checkpoint.size)
    found: list[bytes] = []
    for first in range(0, checkpoint.size, WIDTH):
        tile = Tile(ENTRIES, first // WIDTH, min(WIDTH, checkpoint.size - first))
        raw = parts(f"tile/{tile.path}")
        if raw is None:
            raise LogInvalidError(
                "the log has not all of its entries", hint="a mirror or a backup may have them"
            )
        found += bundled(raw, tile.width)
        advance(tile.width)
    if WholeTree(list(map(leaf_hash, found))).root(checkpoint.size) != checkpoint.root:
        raise LogInvalidError("the entries of the log are not those of its checkpoint")
    return found


def _continued(notes: Sequence[str], entries: Sequence[bytes], last: Checkpoint) -> Iterator[str]:
    """Yield those of ``notes`` that are of less than the whole log, by size."""
    tree = WholeTree(list(map(leaf_hash, entries)))
    found = [(Checkpoint.read(SignedNote.read(each.encode()).text), each) for each in notes]
    for checkpoint, note in sorted(found, key=lambda each: each[0].size):
        if checkpoint.origin != last.origin or checkpoint.size > last.size:
            raise LogInvalidError("the earlier checkpoints are of another log, or of a larger one")
        if tree.root(checkpoint.size) != checkpoint.root:
            raise LogInvalidError("fork: the log does not continue the earlier checkpoints")
        if checkpoint.size < last.size:
            yield note


def _object(parts: Parts, name: str) -> dict[str, bytes]:
    """Return the object under its name; nothing if the log does not have it."""
    raw = parts(f"object/{name}")
    if raw is None:
        return {}
    if object_name(raw) != name:
        raise LogInvalidError(f"the object {name} has another content than its name says")
    return {name: raw}


def proof_of(parts: Parts, note: bytes, index: int) -> bytes:
    """Return the proof that entry ``index`` is in the log of ``note``, a C2SP tlog-proof.

    The entry is the extra data. Raises ``LogInvalidError`` if there is no such entry, or parts of
    the log are missing or of another one.
    """
    checkpoint = Checkpoint.read(SignedNote.read(note).text)
    if not 0 <= index < checkpoint.size:
        raise LogInvalidError(f"the log has entries 0 to {checkpoint.size - 1}")

    def read(tile: Tile) -> bytes:
        found = parts(f"tile/{tile.path}")
        if found is None:
            raise LogInvalidError(
                "the log has not all of its tiles", hint="a mirror or a backup may have them"
            )
        return found

    first = index - index % WIDTH
    tile = Tile(ENTRIES, index // WIDTH, min(WIDTH, checkpoint.size - first))
    entry = bundled(read(tile), tile.width)[index - first]
    proof = inclusion_proof(nodes_of(read, checkpoint.size), index, checkpoint.size)
    require_included(leaf_hash(entry), index, checkpoint.size, proof, checkpoint.root)
    lines = (
        b"c2sp.org/tlog-proof@v1",
        b"extra " + b64encode(entry),
        b"index %d" % index,
        *map(b64encode, proof),
        b"",
        note,
    )
    return b"\n".join(lines)
