"""The transparency log of a deployment, as pages show it. Only its newest part is read."""

import hashlib
from collections.abc import AsyncIterator
from typing import Final

from keyhouse.base.errors import NotFoundError
from keyhouse.client import AsyncCoordinator, CallRefusedError, TrustError
from keyhouse.transparency.leaf import Leaf, read_leaf
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled

_MOST_BUNDLES: Final = 16
"""Bundles of entries that are read, from the newest back: 4,096 leaves."""

_MISSING: Final = 404


async def newest_leaves(coordinator: AsyncCoordinator) -> AsyncIterator[Leaf]:
    """Yield the leaves, the newest first; none if the coordinator is of a version without a log."""
    try:
        size = (await coordinator.log_checkpoint()).size
    except CallRefusedError as refusal:
        if refusal.http_status != _MISSING:
            raise
        return
    last = (size - 1) // WIDTH
    for index in range(last, max(last - _MOST_BUNDLES, -1), -1):
        width = min(WIDTH, size - index * WIDTH)
        raw = await coordinator.log_part(f"tile/{Tile(ENTRIES, index, width).path}")
        for entry in reversed(bundled(raw, width)):
            yield read_leaf(entry)


async def earlier_manifest(coordinator: AsyncCoordinator, fingerprint: str) -> bytes:
    """Return the manifest with this fingerprint (hex) from the log.

    Raises ``NotFoundError`` if it is not there, as a manifest with values in it never is.
    """
    try:
        raw = await coordinator.log_part(f"object/{fingerprint}")
    except CallRefusedError as refusal:
        if refusal.http_status != _MISSING:
            raise
        raise NotFoundError(
            f"the manifest {fingerprint} is not in the log",
            hint="a manifest with values of secrets in it is left out: choose its file",
        ) from None
    if hashlib.sha256(raw).hexdigest() != fingerprint:
        raise TrustError("a manifest of the log does not have the fingerprint that it is named by")
    return raw
