"""A kind of forgery: its name, the holder of the necessary keys, and the change."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from support.evidence import Said
from support.forger.draft import Draft

__all__ = ["Forge", "Kind", "at_a_leaf"]

Forge = Callable[[Draft, Random], bool]


class Kind(NamedTuple):
    """``holder``: coordinator, user, witness, machine, or nobody (a forgery without a key)."""

    name: str
    holder: str
    forge: Forge


def at_a_leaf(
    kinds: tuple[str, ...],
    change: Callable[[Draft, int, Said, Random], Any],
    *,
    last: bool = False,
) -> Forge:
    """Return a forgery: ``change`` a random leaf of these ``kinds``, or the ``last`` leaf.

    ``change`` returns ``False`` if it cannot change the leaf.
    """

    def forge(draft: Draft, chance: Random) -> bool:
        places = draft.of(*kinds)
        if last:
            places = places[-1:]
        chance.shuffle(places)
        for place in places:
            leaf = dict(draft.said[place])
            if change(draft, place, leaf, chance) is not False:
                draft.said[place] = leaf
                return True
        return False

    return forge
