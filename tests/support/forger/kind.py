"""A kind of forgery: its name, the holder of the keys that it needs, and how it is made."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from support.evidence import Said
from support.forger.draft import Draft

__all__ = ["Forge", "Kind", "at_a_leaf"]

Forge = Callable[[Draft, Random], bool]


class Kind(NamedTuple):
    """``holder``: coordinator, user, witness, machine, or nobody (no key is needed)."""

    name: str
    holder: str
    forge: Forge


def at_a_leaf(
    kinds: tuple[str, ...],
    change: Callable[[Draft, int, Said, Random], Any],
    *,
    last: bool = False,
) -> Forge:
    """Return what changes one leaf of these ``kinds``: any, or the ``last``.

    ``change`` returns ``False`` if that leaf does not suit.
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
