"""Who has signed the pending update: as their own keys prove it, whatever the coordinator says."""

from collections.abc import AsyncIterator
from typing import Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.client import AsyncCoordinator
from keyhouse.console.deployments import InForce
from keyhouse.manifest import fingerprint
from keyhouse.transparency.approval import Decision, SignedApproval
from keyhouse.transparency.leaf import Leaf, UpdateApproved, UpdateProposed, name_in_leaf, read_leaf
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundled

_MOST_BUNDLES: Final = 16
"""Bundles of entries that are read for it, from the newest back: 4,096 leaves."""

_AGREED: Final = frozenset({Decision.PROPOSE, Decision.APPROVE})


async def signers(coordinator: AsyncCoordinator, in_force: InForce, pending: bytes) -> set[str]:
    """Return the users whose signed approval of the ``pending`` manifest is in the log.

    Nobody if the log cannot be read now: who has agreed is known without it.
    """
    users = in_force.manifest.users
    names = {name_in_leaf(name): name for name in users}
    found: set[str] = set()
    try:
        async for leaf in _newest(coordinator):
            if not isinstance(leaf, UpdateProposed | UpdateApproved):
                continue
            if leaf.approval and leaf.user in names:
                name = names[leaf.user]
                raw = await coordinator.log_part(f"object/{leaf.approval}")
                if _has_signed(raw, users[name].certificate, leaf.user, pending):
                    found.add(name)
            if isinstance(leaf, UpdateProposed):
                break
    except KeyhouseError:
        return set()
    return found


async def _newest(coordinator: AsyncCoordinator) -> AsyncIterator[Leaf]:
    """Yield the leaves, the newest first."""
    size = (await coordinator.log_checkpoint()).size
    last = (size - 1) // WIDTH
    for index in range(last, max(last - _MOST_BUNDLES, -1), -1):
        width = min(WIDTH, size - index * WIDTH)
        raw = await coordinator.log_part(f"tile/{Tile(ENTRIES, index, width).path}")
        for entry in reversed(bundled(raw, width)):
            yield read_leaf(entry)


def _has_signed(raw: bytes, certificate: bytes, user: str, pending: bytes) -> bool:
    try:
        signed = SignedApproval.read(raw)
        signed.verify(certificate)
    except KeyhouseError:
        return False
    approval = signed.approval
    same = (approval.user, approval.manifest) == (user, fingerprint(pending))
    return same and approval.decision in _AGREED
