"""What is remembered of a deployment's transparency log: heads that its answers have told.

The first head is proven to continue all before it, or is the first ever seen. The others came
later and are not proven yet. All of them must be beginnings of any log that is proven from then
on: an older copy of the state that has overtaken them has another leaf for its own start.
"""

from typing import Final, NamedTuple

from keyhouse.client.errors import TrustError
from keyhouse.wire.address import Address
from keyhouse.wire.headers import LogHead, log_head_in

Heads = tuple[LogHead, ...]


class Proven(NamedTuple):
    """A head that is proven to continue those that it ``covers``."""

    head: LogHead
    covers: Heads


AHEAD: Final = 256
"""Leaves that a log may grow in a session before it is proven that it continues."""

MOST_HEADS: Final = 1_000
"""Heads that are remembered of each deployment."""

_HINT: Final = (
    "an older copy of its state was put back, or two copies run: find out which, and send it"
    " nothing; to continue from this log on purpose: keyhouse trust forget HOST"
)


def read_head(text: str) -> LogHead:
    """Return the value of ``Keyhouse-Log``. Raises ``TrustError``."""
    head = log_head_in(text)
    if head is None:
        raise contradicted("the coordinator's Keyhouse-Log cannot be read")
    return head


def contradicted(problem: str) -> TrustError:
    """Return what is said of a log that contradicts what is remembered."""
    return TrustError(problem, hint=_HINT)


def require_continued(known: Heads, seen: LogHead | None, address: Address) -> None:
    """Require that ``seen`` may continue what was ``known`` when the call began.

    Raises ``TrustError`` for a smaller log, another one of equal size, and none.
    """
    if not known:
        return
    newest = known[-1]
    if seen is None:
        raise contradicted(
            f"the coordinator at {address} tells no head of its log; it was {newest} before"
        )
    if seen.size < newest.size:
        raise contradicted(
            f"rollback: the log of the coordinator at {address} is {seen}, but was {newest} before"
        )
    if seen.size == newest.size and seen != newest:
        raise _fork(address, seen, newest)


def with_head(heads: Heads, seen: LogHead, address: Address) -> Heads:
    """Return ``heads`` with ``seen``; the same tuple if it has nothing new.

    Raises ``TrustError`` if a log of this size was another one.
    """
    same = next((one for one in heads if one.size == seen.size), None)
    if same is not None and same != seen:
        raise _fork(address, seen, same)
    if same is not None or (heads and seen.size < heads[0].size):  # an answer was overtaken
        return heads
    if len(heads) >= MOST_HEADS:
        raise contradicted(f"the log of the coordinator at {address} cannot be proven")
    return tuple(sorted((*heads, seen), key=_size))


def with_proven(heads: Heads, proven: Proven, address: Address) -> Heads:
    """Return ``heads`` after a proof: the head that continues those that it covers, and the others.

    Others came meanwhile, perhaps from another process. Raises ``TrustError`` as ``with_head``.
    """
    found = with_head(heads, proven.head, address)
    others = [one for one in found if one not in proven.covers and one != proven.head]
    return tuple(sorted((proven.head, *others), key=_size))


def _size(head: LogHead) -> int:
    return head.size


def _fork(address: Address, seen: LogHead, known: LogHead) -> TrustError:
    return contradicted(
        f"fork: the log of the coordinator at {address} is {seen}, but was {known} before"
    )
