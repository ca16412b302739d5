"""The transparency log of a deployment for pages: the newest part, and older parts in steps.

The console verifies that the log contains each part. Parts stay in memory, because leaves never
change.
"""

import asyncio
import hashlib
from typing import Final, Protocol

import msgspec

from keyhouse.base.errors import NotFoundError
from keyhouse.client import AsyncCoordinator, CallRefusedError, LogCheckpoint, TrustError
from keyhouse.client.errors import CallUnknownError
from keyhouse.client.public_log import trusting
from keyhouse.transparency import leaf
from keyhouse.transparency.log_reader import entries_after, known_leaf
from keyhouse.transparency.tiles import WIDTH, frontier_of, right_edge
from keyhouse.transparency.tree import Frontier, leaf_hash

STEP: Final = 16 * WIDTH
"""Largest number of entries that a load of a page reads."""

_SHOWN: Final = (
    leaf.AnchorLeaf,
    leaf.LogBegunLeaf,
    leaf.ManifestSetLeaf,
    leaf.ManifestUpdatedLeaf,
    leaf.RecoveredLeaf,
    leaf.StartedLeaf,
    leaf.TrustLeaf,
    leaf.UpdateApprovedLeaf,
    leaf.UpdateProposedLeaf,
)


class LogPartSource(Protocol):
    """The server of the log; ``AsyncCoordinator`` implements this protocol."""

    async def log_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the log, after its verification."""
        ...

    async def log_part(self, path: str) -> bytes:
        """Return the tile or object of the log at ``path``, without a verification."""
        ...


class LogPart(msgspec.Struct, frozen=True):
    """The newest part of a log with ``size`` leaves; the first ``before`` leaves are not read yet.

    ``leaves`` has the leaves of this part for pages, newest first. ``unknown`` counts leaves that
    this version of Keyhouse cannot read. Without a log, the part is empty.
    """

    leaves: tuple[leaf.Leaf, ...] = ()
    before: int = 0
    size: int = 0
    unknown: int = 0


class _Read(msgspec.Struct, frozen=True):
    """Consecutive leaves of the log, oldest first. ``end`` is the frontier after the last leaf.

    ``unknown`` counts leaves that this version of Keyhouse cannot read.
    """

    leaves: tuple[leaf.Leaf, ...]
    unknown: int
    end: Frontier


class LoadedLog:
    """The part of a deployment's log that the console has read."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._origin = ""
        self._begin = Frontier()
        self._read = _Read((), 0, Frontier())

    async def newest(self, source: LogPartSource) -> LogPart:
        """Read the leaves since the last call from ``source``; return the whole read part.

        The first call, and a call after very many new leaves, reads the newest leaves only. Raises
        ``TrustError``.
        """
        async with self._reading:
            try:
                head = await source.log_checkpoint()
            except CallUnknownError:
                return LogPart()
            except CallRefusedError as refusal:
                if refusal.reason != "not-found":
                    raise
                return LogPart()
            if head.origin == self._origin and head.size - self._read.end.size <= STEP:
                new = await _proven(source, self._read.end, head.size, head.root)
                self._read = _joined(self._read, new)
            # Another log, or a log that grew by more than a step: a gap would remain in between.
            else:
                begin = await _frontier(source, _a_step_before(-(-head.size // WIDTH) * WIDTH))
                self._read = await _proven(source, begin, head.size, head.root)
                self._begin, self._origin = begin, head.origin
            found = self._read
            return LogPart(found.leaves[::-1], self._begin.size, head.size, found.unknown)

    async def older(self, source: LogPartSource) -> None:
        """Read a step of older leaves from ``source``. Raises ``TrustError``."""
        async with self._reading:
            end = self._begin
            begin = await _frontier(source, _a_step_before(end.size))
            self._read = _joined(await _proven(source, begin, end.size, end.root), self._read)
            self._begin = begin


def _a_step_before(size: int) -> int:
    return max(0, size - STEP)


def _joined(old: _Read, new: _Read) -> _Read:
    return _Read(old.leaves + new.leaves, old.unknown + new.unknown, new.end)


async def _frontier(source: LogPartSource, size: int) -> Frontier:
    """Return the frontier of the log's first ``size`` leaves, without a verification."""
    tiles = {tile: await source.log_part(f"tile/{tile.path}") for tile in right_edge(size)}
    with trusting():
        return frontier_of(tiles.__getitem__, size)


async def _proven(source: LogPartSource, known: Frontier, size: int, root: bytes) -> _Read:
    """Return the leaves after the frontier ``known``, up to ``size`` leaves.

    Verify that the tree with the root hash ``root`` contains these leaves, and continues ``known``.
    """
    loop = asyncio.get_running_loop()

    def part(path: str) -> bytes:
        return asyncio.run_coroutine_threadsafe(source.log_part(path), loop).result()

    def read() -> _Read:
        entries = [each for piece in entries_after(part, known, size, root) for each in piece]
        leaves = [known_leaf(each) for each in entries]
        shown = tuple(each for each in leaves if isinstance(each, _SHOWN))
        return _Read(shown, leaves.count(None), known.extended(map(leaf_hash, entries)))

    with trusting():
        return await asyncio.to_thread(read)


async def earlier_manifest(coordinator: AsyncCoordinator, fingerprint: str) -> bytes:
    """Return the manifest with ``fingerprint`` (hex) from the log of ``coordinator``.

    Raises ``NotFoundError`` if the log does not have the manifest: the log omits a manifest with
    values of secrets. Raises ``TrustError`` for bytes with a different fingerprint.
    """
    try:
        raw = await coordinator.log_part(f"object/{fingerprint}")
    except CallRefusedError as refusal:
        if refusal.reason != "not-found":
            raise
        raise NotFoundError(
            f"the manifest {fingerprint} is not in the log",
            hint="choose the file of the manifest: the log omits a manifest with values of secrets",
        ) from None
    if hashlib.sha256(raw).hexdigest() != fingerprint:
        raise TrustError(f"the log has a different manifest under the fingerprint {fingerprint}")
    return raw
