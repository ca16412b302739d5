"""The recovery of a deployment, as the console sees it: the wait for shares, and its end.

In recovery mode a coordinator has a temporary root, so requests in an earlier session fail. This
failure alone proves neither a recovery nor an attack. A fresh quote decides: it proves that the
expected code runs. This code states that it waits for a recovery, and names the root of the lost
state.
"""

import asyncio
import hashlib
from typing import Final

from keyhouse.client import (
    AsyncCoordinator,
    Offer,
    TrustError,
    parse_address,
    require_remembered,
    verify_async,
)
from keyhouse.client.from_context import SelectedContext, described

RECOVERY_MODE: Final = 1
"""The phase of a coordinator that waits for its recovery."""


async def offer_of(name: str, known_root: str) -> Offer | None:
    """Verify the coordinator of the context ``name``; return its offer to recover a lost state.

    None means that the coordinator is not in recovery mode. ``known_root`` is the SHA-256 (hex) of
    the root in the console's last session; "" without a session. Raises ``TrustError`` if the lost
    state has a different root, or if the memory has a different root for this address. Also raises
    the errors of ``verify_async``.
    """
    found = await asyncio.to_thread(described, name, anonymous=True)
    try:
        offer = await _present_offer(found)
    except TrustError:
        # A recovery can begin or end between the quote and the request. The root then changes, and
        # the connection fails. A second fresh quote decides.
        offer = await _present_offer(found)
    if offer is None:
        return None
    require_remembered(offer, await asyncio.to_thread(_remembered, found))
    require_remembered(offer, known_root)
    return offer


async def _present_offer(context: SelectedContext) -> Offer | None:
    """Verify a fresh quote of the coordinator of ``context``; return its recovery key and index.

    None means that the coordinator is not in recovery mode.
    """
    trusted = await verify_async(context.address, context.trust, None)
    async with AsyncCoordinator(trusted, None) as coordinator:
        if (await coordinator.status()).code != RECOVERY_MODE:
            return None
        return await coordinator.recovery_offer()


def require_recovered(root: bytes, offer: Offer) -> None:
    """Raise ``TrustError`` unless ``root`` is the root of the lost state in ``offer``.

    ``root`` is the coordinator's root after the recovery, DER. A different root means that a
    different deployment answers.
    """
    if root != offer.index.root:
        raise TrustError(
            f"after the recovery, the coordinator has the root {hashlib.sha256(root).hexdigest()};"
            f" the lost state had {hashlib.sha256(offer.index.root).hexdigest()}",
            hint="send nothing: another deployment answers at this address",
        )


def _remembered(chosen: SelectedContext) -> str:
    """Return the remembered root (SHA-256, hex) at the address of the context ``chosen``, or ""."""
    memory = chosen.memory
    return "" if memory is None else memory.read().root_at(parse_address(chosen.address))
