"""Reads the transparency log of a coordinator as an outsider, and verifies the whole log."""

import base64
from collections.abc import Callable
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import UNSET
from msgspec.structs import replace

from keyhouse.authority import is_signed_by_root
from keyhouse.coordinator import Engine, signed_checkpoint
from keyhouse.evidence.history import History, LogIdentity, LogReferences, follow
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.leaf import Leaf, LogBegunLeaf, object_name, read_leaf
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, frontier_of
from keyhouse.transparency.tree import Frontier, leaf_hash
from support.process.server import Client

__all__ = ["Published", "published", "published_by", "read_log"]


class Published(NamedTuple):
    """A verified log: its checkpoint and all entries."""

    checkpoint: Checkpoint
    entries: list[bytes]

    @property
    def leaves(self) -> list[Leaf]:
        return [read_leaf(entry) for entry in self.entries]

    @property
    def kinds(self) -> list[str]:
        return [type(leaf).__name__.removesuffix("Leaf") for leaf in self.leaves]


async def published(engine: Engine) -> Published:
    """Verify the whole log of ``engine``, and return the log."""
    log = engine.view.running.public_log
    assert log is not None
    size = log.frontier.size
    found = {"checkpoint": signed_checkpoint(log)}
    for level in (ENTRIES, 0, 1):
        there = size // WIDTH if level == 1 else size
        for first in range(0, there, WIDTH):
            tile = Tile(level, first // WIDTH, min(WIDTH, there - first))
            found[f"tile/{tile.path}"] = await engine.writer.public_log.tile(tile)
    root = engine.view.state.keys.root_cert
    return read_log(found.__getitem__, root, log.verifier, log.signature)


def read_log(
    read: Callable[[str], bytes], root: bytes, verifier: str, signature: bytes
) -> Published:
    """Verify and return a log. The certificate ``root`` (DER) vouches for the key of the log.

    ``read`` returns the file ``checkpoint`` and the files below ``tile/``. Every tile of the tree
    is compared with the entries.
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
    _require_history(entries, LogIdentity(key.name, object_name(root), verifier))
    return Published(checkpoint, entries)


def _require_history(entries: list[bytes], identity: LogIdentity) -> None:
    """Follow the leaves as a verifier of evidence does, without manifests and approvals."""
    begun = read_leaf(entries[0])
    imported = begun.imported if isinstance(begun, LogBegunLeaf) else ""
    objects = {imported: b"lines of an update log"}
    history, log = History(identity), LogReferences(objects.get, lambda _: bytes(32), set())
    for entry in entries:
        history = follow(history, _without_objects(read_leaf(entry)), log).history


def _without_objects(leaf: Leaf) -> Leaf:
    """Return ``leaf`` without the fields that require an object of the log."""
    nothing = {"public": UNSET, "approval": ""}
    return replace(leaf, **{name: nothing[name] for name in nothing if hasattr(leaf, name)})


def published_by(client: Client) -> Published:
    """Verify and return the whole log. All answers of the reads must state its head."""
    pem = client.get("/api/v2/quote").data["cert"].encode()
    root = x509.load_pem_x509_certificates(pem)[-1].public_bytes(Encoding.DER)
    key = client.get("/api/v2/log/key").data
    assert key["verifierKey"].startswith(key["origin"] + "+")

    def read(path: str) -> bytes:
        reply = client.get(f"/api/v2/log/{path}")
        assert reply.status == 200, path
        heads.add(reply.headers["keyhouse-log"])
        if path == "checkpoint":
            assert reply.headers["content-type"] == "text/plain; charset=utf-8"
            assert reply.headers["cache-control"] == "no-store"
        else:
            assert reply.headers["content-type"] == "application/octet-stream"
            assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        return reply.body

    heads: set[str] = set()
    found = read_log(read, root, key["verifierKey"], base64.b64decode(key["signature"]))
    assert heads == {f"{found.checkpoint.size}.{found.checkpoint.root[:8].hex()}"}
    return found
