"""Whether newer collateral is remembered: only what goes up, and only so much of it."""

from typing import Final

from immutables import Map

from keyhouse.attestation import Mark, newer_marks
from keyhouse.attestation.collateral.marks import OF_PLATFORM
from keyhouse.coordinator.core.commands import Context, SeeCollateral
from keyhouse.coordinator.core.events import CollateralSeen
from keyhouse.coordinator.core.state import Running, State

__all__ = ["MOST_PLATFORMS", "see_collateral"]

MOST_PLATFORMS: Final = 256
"""Kinds of platforms whose TCB info is remembered; more than any vendor has had so far.

Beyond it the other marks still hold: the evaluation number of a platform's TCB info has to be that
of the QE identity, which is remembered for each TEE.
"""


def see_collateral(
    state: State, command: SeeCollateral, context: Context
) -> tuple[CollateralSeen, ...]:
    """Return the event that remembers what is newer in ``command``; none if nothing is.

    Without a manifest there is no journal, and nothing is remembered.
    """
    if not isinstance(state, Running):
        return ()
    known = state.collateral_marks
    newer = newer_marks(command.marks, known)
    kept = {name: mark for name, mark in newer.items() if _has_room(known, name)}
    return (CollateralSeen(time=context.now, marks=kept),) if kept else ()


def _has_room(known: Map[str, Mark], name: str) -> bool:
    if name in known or not name.startswith(OF_PLATFORM):
        return True
    return sum(each.startswith(OF_PLATFORM) for each in known) < MOST_PLATFORMS
