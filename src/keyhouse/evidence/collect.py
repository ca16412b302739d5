"""Create an evidence file of a log from the served parts of the log."""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from keyhouse.base.progress import advance, begin
from keyhouse.evidence.bundle import (
    MEDIA_TYPE,
    CertifiedLogKey,
    Entry,
    Evidence,
    Hidden,
    QuotedHead,
)
from keyhouse.evidence.milestones import MOST_OF_A_SIZE, WholeTree
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.inclusion import inclusion_proof, require_included
from keyhouse.transparency.keys import VerifierKey, signed_checkpoint
from keyhouse.transparency.leaf import object_name, read_leaf
from keyhouse.transparency.log_reader import entries_between, objects_named
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.tiles import WIDTH, nodes_of
from keyhouse.transparency.tree import leaf_hash

_DOUBTED: Final = "compare the log with a mirror or an earlier evidence file, and ask its operator"

Parts = Callable[[str], bytes | None]
"""Return ``tile/...`` or ``object/...`` of a log, or None for a missing part."""


def collect(
    parts: Parts,
    *,
    made: int,
    certificates: tuple[bytes, bytes],
    key: CertifiedLogKey,
    note: bytes,
    head: QuotedHead,
    collateral: bytes,
    earlier: Sequence[str] = (),
    hide_anchors: bool = False,
) -> Evidence:
    """Return the evidence file of a log. ``parts`` returns the tiles and objects of the log.

    ``certificates`` are the root and the intermediate (DER). ``key`` and ``note`` are the key of
    the log and its last checkpoint. ``head`` is a quote over this checkpoint, and ``collateral``
    verifies the quote. ``earlier`` are checkpoints of the same log, whose cosignatures prove the
    times of earlier leaves. ``made`` is the time of the file, in microseconds since 1970. With
    ``hide_anchors``, the file has only the hash of each anchor. Raises ``LogInvalidError`` if the
    key has not signed ``note``, if the leaves do not match a checkpoint, or if an object does not
    match its name.
    """
    checkpoint = signed_checkpoint(note, VerifierKey.read(key.key))
    entries, tree = _log_of(parts, checkpoint)
    parsed = [read_leaf(entry) for entry in entries]
    objects = _objects_of(parts, parsed, {object_name(collateral): collateral})
    root, intermediate = certificates
    return Evidence(
        media_type=MEDIA_TYPE,
        made=made,
        origin=checkpoint.origin,
        root=root,
        intermediate=intermediate,
        log=key,
        head=head,
        checkpoints=(*_continued(earlier, tree, checkpoint), note.decode()),
        entries=tuple(_without_anchors(entries, parsed) if hide_anchors else entries),
        objects=objects,
    )


def _without_anchors(entries: Sequence[bytes], parsed: Sequence[leaves.Leaf]) -> Iterator[Entry]:
    """Yield ``entries``, the bytes of leaves. For an anchor, yield only the hash of the leaf.

    An anchor states no change. ``parsed``: the same leaves, parsed.
    """
    for entry, leaf in zip(entries, parsed, strict=True):
        yield Hidden(leaf_hash(entry)) if isinstance(leaf, leaves.AnchorLeaf) else entry


def _log_of(parts: Parts, checkpoint: Checkpoint) -> tuple[list[bytes], WholeTree]:
    """Return all leaves in bytes of the log with this ``checkpoint``, and the tree over them.

    Raises ``LogInvalidError`` if leaves are missing, or do not match the checkpoint.
    """
    begin("fetching entries", checkpoint.size)

    def read(path: str) -> bytes:
        advance(WIDTH)
        return _part(parts, path)

    entries = list(entries_between(read, 0, checkpoint.size, checkpoint.size))
    tree = WholeTree(list(map(leaf_hash, entries)))
    if tree.root(checkpoint.size) != checkpoint.root:
        raise LogInvalidError(
            "the entries of the log do not match the checkpoint of the log", hint=_DOUBTED
        )
    return entries, tree


def _part(parts: Parts, path: str) -> bytes:
    """Return the tile or object at ``path``. Raises ``LogInvalidError`` if it is missing."""
    raw = parts(path)
    if raw is None:
        raise LogInvalidError(
            f"the log does not have all of its parts: {path} is missing",
            hint="restore the missing part from a mirror or a backup of the log",
        )
    return raw


def _objects_of(
    parts: Parts, parsed: Sequence[leaves.Leaf], objects: dict[str, bytes]
) -> dict[str, bytes]:
    """Return ``objects``, extended by every object that the leaves ``parsed`` name.

    Raises ``LogInvalidError`` for a missing object, unless it is a manifest that is not public.
    """
    begin("fetching objects", len(parsed))
    for leaf in parsed:
        for name in objects_named(leaf, objects.get):
            if name not in objects and (raw := _object(parts, leaf, name)) is not None:
                objects[name] = raw
        advance(1)
    return objects


def _continued(notes: Sequence[str], tree: WholeTree, last: Checkpoint) -> Iterator[str]:
    """Yield the checkpoints in ``notes`` over less than the whole log, the smallest first.

    ``last`` is the checkpoint over the whole log. No checkpoint is repeated. At most
    ``MOST_OF_A_SIZE`` checkpoints have an equal size, as a verifier requires. Raises
    ``LogInvalidError`` for a checkpoint that ``tree`` does not continue.
    """
    known = dict.fromkeys(notes)
    checkpoints = [(Checkpoint.read(SignedNote.read(each.encode()).text), each) for each in known]
    sizes: Counter[int] = Counter()
    for checkpoint, note in sorted(checkpoints, key=lambda each: each[0].size):
        sizes[checkpoint.size] += 1
        if checkpoint.origin != last.origin or checkpoint.size > last.size:
            raise LogInvalidError(
                "the earlier checkpoints must belong to this log, and cover at most its entries",
                hint=_DOUBTED,
            )
        if tree.root(checkpoint.size) != checkpoint.root:
            raise LogInvalidError(
                "fork: the log does not continue the earlier checkpoints", hint=_DOUBTED
            )
        if checkpoint.size < last.size and sizes[checkpoint.size] <= MOST_OF_A_SIZE:
            yield note


def _object(parts: Parts, leaf: leaves.Leaf, name: str) -> bytes | None:
    """Return the object ``name`` of ``leaf``.

    The result is None for a missing manifest, unless ``leaf`` states that the manifest is public.
    Raises ``LogInvalidError`` for any other missing object, and for different content.
    """
    path = f"object/{name}"
    public = getattr(leaf, "public", None)  # only in leaves with a manifest
    is_manifest = public is not None and name == getattr(leaf, "manifest", "")
    raw = parts(path) if is_manifest and public is not True else _part(parts, path)
    if raw is not None and object_name(raw) != name:
        raise LogInvalidError(
            f"the content of the object {name} does not match its name", hint=_DOUBTED
        )
    return raw


def proof_of(parts: Parts, note: bytes, index: int) -> bytes:
    """Return the proof that leaf ``index`` is in the log with the checkpoint ``note``.

    The format is C2SP tlog-proof, with the leaf as extra data. Raises ``LogInvalidError`` for an
    index outside the log, and for parts that are missing or do not match.
    """
    checkpoint = Checkpoint.read(SignedNote.read(note).text)
    if not 0 <= index < checkpoint.size:
        raise LogInvalidError(
            f"the log has no entry {index}; the log has the entries 0 to {checkpoint.size - 1}",
            hint="name an entry of the log",
        )

    entry = next(entries_between(partial(_part, parts), index, index + 1, checkpoint.size))
    nodes = nodes_of(lambda tile: _part(parts, f"tile/{tile.path}"), checkpoint.size)
    proof = inclusion_proof(nodes, index, checkpoint.size)
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
