"""The log without a coordinator: leaves, head, and the files of a log with many leaves."""

import asyncio
import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from benchmarks.public_log.measured import limited, plain, timed_us
from benchmarks.rows import Row
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from keyhouse.base.secret import Secret
from keyhouse.coordinator import PublicLog, signed_checkpoint
from keyhouse.coordinator.core.evolve import extended
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.log_files import DirectoryParts, LogFiles
from keyhouse.journal.log_store import LogStore
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.canonical import canonical
from keyhouse.transparency.inclusion import inclusion_proof, require_included
from keyhouse.transparency.keys import ED25519, VerifierKey, verified
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled, nodes_of, tiles_read
from keyhouse.transparency.tree import Frontier, Nodes, leaf_hash

__all__ = ["leaf_us", "log_rows"]

_TIMES: Final = 1000
_BATCH: Final = 1000  # leaves in a batch, as with many changes in one flush
_PROOFS: Final = 50
_QUOTE_BYTES: Final = 4_800  # of a start
_COLLATERAL_BYTES: Final = 9_000
_LEAF_US: Final = 10.0
_STATE_BYTES: Final = 2048.0
_TREE_KIB: Final = 1024.0
_PROOF_MS: Final = 2.0
_START_MS: Final = 20.0


def leaf_us(rounds: int) -> list[float]:
    """Measure the cost of a leaf in µs: the encoding, and the extended tree."""
    log = _new_log()

    def append() -> None:
        nonlocal log
        log = extended(log, (_leaf(log.frontier.size),))

    return timed_us(append, _TIMES, rounds)


def log_rows(folder: Path, size: int, rounds: int) -> Iterator[Row]:
    """Yield rows about leaves and heads, then about a log of ``size`` leaves in ``folder``."""
    what = f"leaf of {len(_leaf(7))} bytes: encode and frontier, µs"
    yield limited(what, leaf_us(rounds), _LEAF_US)
    log = _new_log()
    note = signed_checkpoint(log)
    key = VerifierKey.read(log.verifier)
    signed = timed_us(lambda: signed_checkpoint(log), _TIMES, rounds)
    yield plain("checkpoint: sign, µs", signed)
    read = timed_us(lambda: verified(SignedNote.read(note), [key]), _TIMES, rounds)
    yield plain("checkpoint: read and verify, µs", read)
    files = LogFiles(folder, "log", Disk())
    grown = asyncio.run(_grow(files, size))
    named = f"{size:,} leaves"
    yield plain(f"{named}: root, s", [grown.rooted])
    yield plain(f"{named}: to files, s", [grown.written])
    yield from _sizes(named, files, grown.frontier)
    yield from _proofs(named, files, grown.frontier)
    added = [asyncio.run(_opened_ms(files, grown.frontier, log)) for _ in range(rounds)]
    yield limited(f"{named}: what the log adds to a start, but its quote, ms", added, _START_MS)


class _Grown(NamedTuple):
    frontier: Frontier
    rooted: float  # seconds for the hashes
    written: float  # seconds for all tiles and entries in the files, durable at the end


async def _grow(files: LogFiles, size: int) -> _Grown:
    store, frontier = LogStore(DirectoryParts(files)), Frontier()
    rooted = written = 0.0
    for first in range(0, size, _BATCH):
        batch = [_leaf(number) for number in range(first, min(first + _BATCH, size))]
        begun = time.perf_counter()
        frontier = frontier.extended(map(leaf_hash, batch))
        hashed = time.perf_counter()
        store.extend(batch)
        await store.write_complete_tiles()
        rooted += hashed - begun
        written += time.perf_counter() - hashed
    begun = time.perf_counter()
    await store.sync()
    return _Grown(frontier, rooted, written + time.perf_counter() - begun)


def _sizes(named: str, files: LogFiles, frontier: Frontier) -> Iterator[Row]:
    state = len(msgspec.msgpack.encode(frontier))
    yield limited(f"{named}: tree in the state, bytes", [state], _STATE_BYTES)
    tracemalloc.start()
    store = asyncio.run(LogStore.open(DirectoryParts(files), frontier, ()))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del store
    yield limited(f"{named}: tree in memory, KiB", [held / 1024], _TREE_KIB)
    found = [path.stat() for path in files.folder.rglob("*") if path.is_file()]
    yield plain(f"{named}: content of the files, MB", [sum(each.st_size for each in found) / 1e6])
    occupied = sum(each.st_blocks for each in found) * 512 / 1e6
    yield plain(f"{named}: {len(found):,} files occupy, MB", [occupied])


def _proofs(named: str, files: LogFiles, frontier: Frontier) -> Iterator[Row]:
    """Yield rows about proofs of leaves, from tiles outside of memory and page cache."""
    size, made, checked, hashes = frontier.size, [], [], 0
    for index in range(0, size, max(size // _PROOFS, 1)):

        def prove(nodes: Nodes, index: int = index) -> list[bytes]:
            return inclusion_proof(nodes, index, size)

        for tile in tiles_read(prove, size):
            _forget(files.folder / "hashes" / tile.full.path)
        begun = time.perf_counter()
        proof = prove(nodes_of(files.tile, size))
        made.append((time.perf_counter() - begun) * 1000)
        hashes = max(hashes, len(proof))
        width = min(WIDTH, size - index // WIDTH * WIDTH)
        entries = bundled(files.tile(Tile(ENTRIES, index // WIDTH, width)), width)
        leaf = leaf_hash(entries[index % WIDTH])
        begun = time.perf_counter()
        require_included(leaf, index, size, proof, frontier.root)
        checked.append((time.perf_counter() - begun) * 1e6)
    yield limited(f"{named}: proof of {hashes} hashes from cold tiles, ms", made, _PROOF_MS)
    yield plain(f"{named}: verify that proof, µs", checked)


async def _opened_ms(files: LogFiles, frontier: Frontier, log: PublicLog) -> float:
    """Measure the work of a start for the log, in ms.

    A start opens the log, stores the quote and the collateral, appends a leaf, and signs the head.
    """
    quote, collateral = os.urandom(_QUOTE_BYTES), bytes(_COLLATERAL_BYTES)
    begun = time.perf_counter()
    store = await LogStore.open(DirectoryParts(files), frontier, ())
    await store.put_objects((quote, collateral))
    leaf = _leaf(frontier.size)
    after = extended(msgspec.structs.replace(log, frontier=frontier), (leaf,))
    store.extend((leaf,))
    signed_checkpoint(after)
    return (time.perf_counter() - begun) * 1000


def _leaf(number: int) -> bytes:
    """Return a leaf about an upload, with the coordinator's encoding."""
    upload = leaves.Uploads("benchmark-user", "c" * 64, (f"database-password-{number:07}",))
    return canonical(
        leaves.SecretsUploadedLeaf(time=1_790_000_000_000_000 + number, uploads=(upload,))
    )


def _new_log() -> PublicLog:
    key = Ed25519PrivateKey.generate()
    verifier = VerifierKey("keyhouse/benchmark", ED25519, key.public_key().public_bytes_raw())
    frontier = Frontier().extended((leaf_hash(_leaf(0)),))
    return PublicLog(Secret(key.private_bytes_raw()), str(verifier), b"", frontier)


def _forget(path: Path) -> None:
    """Request that the kernel drops a file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
