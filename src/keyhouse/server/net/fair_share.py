"""Fair shares of what all clients of a listener have together: streams, calls, memory.

A bound that belongs to those who come first lets a few clients lock all others out. Here, when a
pool is full, the client that holds the most loses something, and a client that asks is refused only
if it would hold about as much as that one. So of n clients each can have half of its n-th part,
whatever the others do. Sizes are compared as powers of two, which makes each step constant work.

Source: "longest queue drop": Suter, Lakshman, Stiliadis, Choudhury, "Design considerations for
supporting TCP with per-flow queueing", IEEE INFOCOM 1998.
"""

from collections import OrderedDict
from collections.abc import Callable

_Lose = Callable[[], None]


class Pool:
    """At most ``most`` units, of which ``held`` are in use. For the event loop's thread only."""

    def __init__(self, most: int) -> None:
        self.held = 0
        self.most = most
        # By the bit length of what they hold; within one, who has been there longest comes first.
        self._holders = [OrderedDict[Share, _Lose]() for _ in range(most.bit_length() + 1)]

    def make_room(self, count: int, held: int) -> bool:
        """Make room for ``count`` more units for a client that would then have ``held``.

        Return False if it is refused; those who hold much more may have lost something even so.
        """
        if held > self.most:
            return False
        while self.held + count > self.most:
            share, lose = self._largest()
            before = share.held if share is not None else 0
            if share is None or before.bit_length() <= held.bit_length():
                return False
            lose()
            if share.held >= before:
                return False
        return True

    def note(self, share: "Share", held: int, lose: _Lose | None) -> None:
        """Count what ``share`` holds now. Without ``lose`` nothing is taken back from it."""
        before, size = share.held.bit_length(), held.bit_length()
        self.held += held - share.held
        known = self._holders[before].get(share)
        lose = lose or known
        if known is not None and size != before:
            del self._holders[before][share]
        if size and lose is not None:
            self._holders[size][share] = lose

    def forget(self, share: "Share") -> None:
        """Count nothing any more of what ``share`` holds."""
        self._holders[share.held.bit_length()].pop(share, None)
        self.held -= share.held

    def keep(self, share: "Share") -> None:
        """Take nothing back from ``share`` until it takes more."""
        self._holders[share.held.bit_length()].pop(share, None)

    def _largest(self) -> "tuple[Share | None, _Lose]":
        for holders in reversed(self._holders):
            for share, lose in holders.items():
                return share, lose
        return None, lambda: None


class Share:
    """What one client holds of ``pool``."""

    __slots__ = ("held", "pool")

    def __init__(self, pool: Pool) -> None:
        self.held = 0
        self.pool = pool

    def take(self, count: int, lose: _Lose) -> bool:
        """Take ``count`` units, or return False and take none.

        ``lose`` gives at least one unit back at once. It is called when others hold less and need
        room, and is forgotten when nothing is held.
        """
        pool, held = self.pool, self.held + count
        if pool.held + count > pool.most and not pool.make_room(count, held):
            return False
        pool.note(self, held, lose)
        self.held = held
        return True

    def give(self, count: int) -> None:
        """Give ``count`` units back."""
        held = self.held - count
        if held:
            self.pool.note(self, held, None)
        else:
            self.pool.forget(self)
        self.held = held
