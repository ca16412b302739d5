"""Fair shares of a common resource of all clients: streams, calls, memory.

With a limit for all clients together, a few early clients can lock out all other clients. Here,
when a pool is full, the client with the largest share loses a part. A request for more is refused
only if the requesting client would then have about the largest share. So each of n clients can have
half of the n-th part, whatever the other clients do. Sizes are compared as powers of two, which
makes each step constant work.

Source: "longest queue drop": Suter, Lakshman, Stiliadis, Choudhury, "Design considerations for
supporting TCP with per-flow queueing", IEEE INFOCOM 1998.
"""

from collections import OrderedDict
from collections.abc import Callable

_Lose = Callable[[], None]


class Pool:
    """A resource for all clients, such as memory: ``held`` of its ``most`` units are in use.

    Use on the event loop's thread only.
    """

    def __init__(self, most: int) -> None:
        self.held = 0
        self.most = most
        # Shares by the bit length of their size. Within a length, the oldest share comes first.
        self._holders = [OrderedDict[Share, _Lose]() for _ in range(most.bit_length() + 1)]

    def make_room(self, count: int, held: int) -> bool:
        """Release units of larger shares until ``count`` units are free.

        ``held``: the units of the requesting client with the new units. Return False if the request
        is refused. Larger shares may have lost units even then.
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

    def record_size(self, share: "Share", held: int, lose: _Lose | None) -> None:
        """Record that ``share`` now has ``held`` units.

        ``lose`` gives units of ``share`` back to the pool. None: the pool uses the function of an
        earlier call. A share without any function loses no units.
        """
        before, size = share.held.bit_length(), held.bit_length()
        self.held += held - share.held
        known = self._holders[before].get(share)
        lose = lose or known
        if known is not None and size != before:
            del self._holders[before][share]
        if size and lose is not None:
            self._holders[size][share] = lose

    def forget(self, share: "Share") -> None:
        """Remove ``share`` from the pool, and return all of its units."""
        self._holders[share.held.bit_length()].pop(share, None)
        self.held -= share.held

    def protect(self, share: "Share") -> None:
        """Protect ``share``: the pool takes back no units until the client requests more."""
        self._holders[share.held.bit_length()].pop(share, None)

    def _largest(self) -> "tuple[Share | None, _Lose]":
        for holders in reversed(self._holders):
            for share, lose in holders.items():
                return share, lose
        return None, lambda: None


class Share:
    """The units of ``pool`` that a client holds."""

    __slots__ = ("held", "pool")

    def __init__(self, pool: Pool) -> None:
        self.held = 0
        self.pool = pool

    def acquire(self, count: int, lose: _Lose) -> bool:
        """Request ``count`` more units. If they are refused, return False.

        The pool calls ``lose`` when smaller shares need units. ``lose`` must give back at least one
        unit at once. The pool drops ``lose`` when the share is empty.
        """
        pool, held = self.pool, self.held + count
        if pool.held + count > pool.most and not pool.make_room(count, held):
            return False
        pool.record_size(self, held, lose)
        self.held = held
        return True

    def release(self, count: int) -> None:
        """Return ``count`` units to the pool."""
        held = self.held - count
        if held:
            self.pool.record_size(self, held, None)
        else:
            self.pool.forget(self)
        self.held = held
