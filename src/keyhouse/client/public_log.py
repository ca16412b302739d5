"""The transparency log of a coordinator: its key, its newest checkpoint, and consistency proofs.

Anyone may serve the tiles. The client computes roots from the tiles and compares them with a signed
checkpoint.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from keyhouse.base.hex_repr import Readable
from keyhouse.client import calls
from keyhouse.client.calls import ApiCall
from keyhouse.client.effects import Steps
from keyhouse.client.errors import TrustError
from keyhouse.client.memory.states import log_contradiction
from keyhouse.client.root_signature import require_signature
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ED25519, VerifierKey, signed_checkpoint
from keyhouse.transparency.tiles import Tile, nodes_of, tiles_read
from keyhouse.transparency.tree import Nodes, consistency_proof, require_consistent, root_of
from keyhouse.wire.client_api import LogKeyData
from keyhouse.wire.headers import LogHead

T = TypeVar("T")

_KEY_CONTEXT: Final = b"keyhouse log key v1\0"


class SendCall(Protocol):
    """A function that sends a call to the verified coordinator."""

    def __call__(self, call: ApiCall[T], /) -> Steps[T]:
        """Return the coordinator's answer to ``call``."""
        ...


class LogCheckpoint(Readable, frozen=True):
    """A checkpoint of the log. The signature of the log's key has been verified."""

    origin: str
    size: int
    root: bytes  # of the tree, 32 bytes
    note: bytes  # unchanged, with all signatures
    verifier: str  # the key of the log


def log_key(send: SendCall, root_der: bytes) -> Steps[LogKeyData]:
    """Return the key of the log, after a check of the signature by the root ``root_der``.

    Raises ``TrustError``.
    """
    data = yield from send(calls.LOG_KEY)
    message = _KEY_CONTEXT + data.verifier_key.encode("utf-8", "surrogatepass")
    require_signature(root_der, message, data.signature, "the key of the log")
    with trusting():
        key = VerifierKey.read(data.verifier_key)
    if key.kind != ED25519 or key.name != data.origin:
        raise TrustError(
            "the log key from the coordinator must be an Ed25519 key with the name of the log"
        )
    return data


def checkpoint_in(note: bytes, verifier: str) -> LogCheckpoint:
    """Parse ``note`` and verify the signature of the key ``verifier``.

    Raises ``LogInvalidError``.
    """
    checkpoint = signed_checkpoint(note, VerifierKey.read(verifier))
    return LogCheckpoint(checkpoint.origin, checkpoint.size, checkpoint.root, note, verifier)


def newest_checkpoint(
    send: SendCall, root_der: bytes, heads: Iterable[LogHead]
) -> Steps[LogCheckpoint]:
    """Return the newest checkpoint of the log.

    Before, prove that the checkpoint continues each of ``heads``. ``root_der`` is the root
    certificate, for the signature on the log's key. Raises ``TrustError``.
    """
    key = yield from log_key(send, root_der)
    note = yield from send(calls.NEWEST_CHECKPOINT)
    with trusting():
        checkpoint = checkpoint_in(note, key.verifier_key)
    parts: dict[Tile, bytes] = {}  # heads of similar sizes need the same tiles
    for head in heads:
        if head.size > checkpoint.size:
            raise log_contradiction(
                f"rollback: the log has {checkpoint.size} leaves, but had {head.size} leaves before"
            )
        root = yield from _root_of(send, head.size, checkpoint, parts)
        if LogHead.of(head.size, root) != head:
            raise log_contradiction(
                f"fork: the log of {checkpoint.size} leaves does not continue the remembered {head}"
            )
    return checkpoint


def cosigned_checkpoint(
    send: SendCall, root_der: bytes, newest: LogCheckpoint
) -> Steps[LogCheckpoint]:
    """Return the newest cosigned checkpoint, after a proof that ``newest`` continues this one.

    Without any cosigned checkpoint, the coordinator serves a checkpoint without cosignatures.
    Raises ``TrustError``.
    """
    note = yield from send(calls.CHECKPOINT)
    with trusting():
        cosigned = checkpoint_in(note, newest.verifier)
    if cosigned.size > newest.size:  # the log has grown meanwhile
        newest = yield from newest_checkpoint(
            send, root_der, [LogHead.of(newest.size, newest.root)]
        )
    if (
        cosigned.size > newest.size
        or (yield from _root_of(send, cosigned.size, newest, {})) != cosigned.root
    ):
        raise log_contradiction(
            f"fork: the log of {newest.size} leaves does not continue the {cosigned.size} leaves"
            " that its witnesses saw"
        )
    return cosigned


def _root_of(
    send: SendCall, size: int, new: LogCheckpoint, parts: dict[Tile, bytes]
) -> Steps[bytes]:
    """Return the root over the first ``size`` leaves of the log with the checkpoint ``new``.

    A proof from tiles shows that ``new`` continues these leaves. The function adds fetched tiles to
    the cache ``parts``. Raises ``TrustError``.
    """

    def read(nodes: Nodes) -> tuple[bytes, list[bytes]]:
        return root_of(nodes, size), consistency_proof(nodes, size, new.size)

    if size == new.size:
        return new.root
    for tile in tiles_read(read, new.size):
        if tile not in parts:
            parts[tile] = yield from send(calls.log_part(f"tile/{tile.path}"))
    with trusting():
        root, proof = read(nodes_of(parts.__getitem__, new.size))
        require_consistent(size, new.size, proof, root, new.root)
    return root


@contextmanager
def trusting() -> Iterator[None]:
    """Raise a ``TrustError`` for each ``LogInvalidError`` in the block."""
    try:
        yield
    except LogInvalidError as error:
        raise TrustError(
            f"the coordinator's log does not verify: {error.message}",
            hint=error.hint
            or "compare the log with a mirror: the network or the host's disk may have damaged it",
        ) from None
