"""What a client remembers of coordinators, to detect rollbacks, which no single quote can show.

A quote proves which code answers and under which root, not that its state is the newest: a host can
restore an older copy of everything, or run two copies that diverge. But every answer of a
coordinator that enforces a manifest carries ``Keyhouse-State: <epoch>.<sequence>.<chain>``, its
place in an append-only journal. A state that was seen once must hold forever:

====================================================  =============================================
another root certificate at an address                another deployment answers
a lower sequence than was known when the call began   rollback: an older copy
an equal sequence with another chain or epoch         fork: two copies have run apart
epochs do not rise with the sequences                 contradiction: no journal has both
no place at all, where there was one                  the state is gone
====================================================  =============================================

Its transparency log, in the header ``Keyhouse-Log``, shows what places cannot: an older copy that
has overtaken what is remembered. The first head that is remembered is proven to continue all before
it, or is the first ever seen. The others came later and are not proven yet. All of them must be
beginnings of any log that is proven from then on: an older copy of the state that has overtaken
them has another leaf for its own start.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.client.errors import TrustError
from keyhouse.client.memory.lines import SeenLine, seen_after
from keyhouse.client.steps import Answer
from keyhouse.wire.address import Address
from keyhouse.wire.headers import LogHead, Place, place_in

if TYPE_CHECKING:
    from keyhouse.transparency.line import RootLine

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


KEPT: Final = 1_000
"""Places that are remembered of each deployment: the newest ones."""

MOST: Final = 100
"""Addresses that are remembered."""

_SERVER_ERROR: Final = 500


class MemoryFullError(RefusedError):
    """No further coordinator can be remembered."""

    code = "memory-full"


class Memories(msgspec.Struct, frozen=True):
    """Everything that is remembered. Places ascend by sequence, and their epochs never fall."""

    roots: dict[str, str] = {}  # ``host:port`` to the SHA-256 of the root certificate, in hex
    places: dict[str, tuple[Place, ...]] = {}  # that SHA-256 to what was seen under it
    heads: dict[str, Heads] = {}  # that SHA-256 to heads of its log
    lines: dict[str, SeenLine] = {}  # that SHA-256 to its line

    def root_at(self, address: Address) -> str:
        """Return the SHA-256 of the root that answered at ``address``; "" if none is known."""
        return self.roots.get(_key(address), "")

    def highest(self, root: str) -> Place | None:
        """Return the newest place under ``root``, a SHA-256 in hex."""
        places = self.places.get(root, ())
        return places[-1] if places else None


class StateMemory(Protocol):
    """Stores ``Memories`` beyond the end of a session."""

    def read(self) -> Memories:
        """Return what is remembered now."""
        ...

    def change(self, step: Callable[[Memories], Memories]) -> None:
        """Replace what is remembered by ``step`` of it, durably and atomically."""
        ...


class Watch:
    """Checks the answers of one coordinator against ``memory``. Without one it checks nothing."""

    def __init__(self, memory: StateMemory | None, address: Address, root_der: bytes) -> None:
        self.root_der = root_der
        self._memory = memory
        self._address = address
        self._root = hashlib.sha256(root_der).hexdigest()

    def begin(self) -> Memories:
        """Return what is known before a call: its answer must not be older."""
        return self._memory.read() if self._memory is not None else Memories()

    def newest(self, known: Memories) -> Place | None:
        """Return the newest place in ``known``."""
        return known.highest(self._root)

    def heads(self, known: Memories) -> Heads:
        """Return the heads of the log in ``known``."""
        return known.heads.get(self._root, ())

    def line(self, known: Memories) -> SeenLine | None:
        """Return the line in ``known``."""
        return known.lines.get(self._root)

    def remember_line(self, line: "RootLine", *, accepted: bool = False) -> None:
        """Remember ``line``, which was proven; with ``accepted`` its manifests are accepted."""
        if self._memory is None:
            return

        def step(memories: Memories) -> Memories:
            seen = seen_after(line, self.line(memories))
            if accepted:
                seen = msgspec.structs.replace(seen, accepted=max(seen.accepted, len(line.raw)))
            return with_line(memories, self._root, seen)

        self._memory.change(step)

    def remember_first(self, manifest: str) -> None:
        """Remember that the user has set the first manifest, of this fingerprint."""
        if self._memory is not None:
            seen = SeenLine(manifest, accepted=1)
            self._memory.change(lambda memories: with_line(memories, self._root, seen))

    def unproven(self, known: Memories, answer: Answer, ahead: int) -> Heads:
        """Return the heads that the log has to be proven to continue before ``answer`` is used.

        Empty if it is what was proven last, or at most ``ahead`` leaves more.
        Raises ``TrustError`` for an answer that contradicts what was ``known``.
        """
        if self._memory is None or _is_without_state(answer):
            return ()
        heads, seen = self.heads(known), _head_of(answer)
        require_continued(heads, seen, self._address)
        if not heads or seen is None or seen.size - heads[0].size <= ahead:
            return ()
        return with_head(heads, seen, self._address)

    def check(self, known: Memories, answer: Answer, proven: Proven | None = None) -> None:
        """Check an answer to a call that began when this was ``known``; remember its state.

        ``proven``: a head of the log that is proven to continue what is remembered. Raises
        ``TrustError``, and refusals of a memory that cannot be used.
        """
        if self._memory is None or _is_without_state(answer):
            return
        place = read_place(answer.state) if answer.state is not None else None
        head = _head_of(answer)
        require_continued(self.heads(known), head, self._address)

        def step(memories: Memories) -> Memories:
            newest = self.newest(known)
            found = remembered(memories, self._address, self._root, newest, place)
            return self._with_head(found, head, proven)

        self._memory.change(step)

    def _with_head(
        self, memories: Memories, head: LogHead | None, proven: Proven | None
    ) -> Memories:
        before = self.heads(memories)
        if head is None or self._root not in memories.places:
            return memories
        heads = with_head(before, head, self._address)
        if proven is not None:
            heads = with_proven(heads, proven, self._address)
        if heads == before:
            return memories
        return msgspec.structs.replace(memories, heads={**memories.heads, self._root: heads})


def _is_without_state(answer: Answer) -> bool:
    """Tell whether it is a failure inside the server, which carries no state and no other data."""
    return answer.state is None and answer.http_status >= _SERVER_ERROR


def _head_of(answer: Answer) -> LogHead | None:
    return read_head(answer.log) if answer.log is not None else None


def read_place(text: str) -> Place:
    """Return the value of ``Keyhouse-State`` as a place. Raises ``TrustError``."""
    place = place_in(text)
    if place is None:
        raise _contradiction("the coordinator's Keyhouse-State cannot be read")
    return place


def require_root_of(memories: Memories, address: Address, root: str) -> None:
    """Require that no other root than ``root`` (SHA-256, hex) is known at ``address``.

    Raises ``TrustError``.
    """
    known = memories.root_at(address)
    if known and known != root:
        raise TrustError(
            f"another root certificate than before answers at {address}: its SHA-256 is {root},"
            f" must be {known}",
            hint="another deployment is there, or it waits for recovery (keyhouse status --memory"
            " none tells); if a new one is meant to be there: keyhouse trust forget"
            f" {address}",
        )


def remembered(
    memories: Memories, address: Address, root: str, known: Place | None, seen: Place | None
) -> Memories:
    """Return ``memories`` with the place ``seen`` at ``address`` under ``root`` (SHA-256, hex).

    ``known`` is the newest place under that root when the call began: answers that overtake each
    other are not a rollback. Raises ``TrustError``, or ``MemoryFullError``.
    """
    require_root_of(memories, address, root)
    if seen is None:
        if known is not None:
            raise _contradiction(
                f"the coordinator at {address} tells no state; it was at {known} before"
            )
        return memories
    if known is not None and seen.sequence < known.sequence:
        raise _contradiction(
            f"rollback: the coordinator at {address} is at {seen}, but was at {known} before"
        )
    places = _with(memories.places.get(root, ()), seen, address)
    if memories.root_at(address) == root and places is memories.places.get(root):
        return memories
    roots = {**memories.roots, _key(address): root}
    if len(roots) > MOST:
        raise MemoryFullError(
            f"{MOST} coordinators are remembered already",
            hint="keyhouse trust forget those that are gone, or name another --memory",
        )
    return msgspec.structs.replace(memories, roots=roots, places={**memories.places, root: places})


def forgotten(memories: Memories, address: Address) -> Memories:
    """Return ``memories`` without the deployment at ``address``, whatever its other addresses."""
    root = memories.root_at(address)
    return Memories(
        {where: other for where, other in memories.roots.items() if other != root},
        {other: places for other, places in memories.places.items() if other != root},
        {other: heads for other, heads in memories.heads.items() if other != root},
        {other: line for other, line in memories.lines.items() if other != root},
    )


def with_line(memories: Memories, root: str, seen: SeenLine) -> Memories:
    """Return ``memories`` with the line of ``root`` (SHA-256, hex), if that root is known."""
    if root not in memories.places or memories.lines.get(root) == seen:
        return memories
    return msgspec.structs.replace(memories, lines={**memories.lines, root: seen})


def _with(places: tuple[Place, ...], seen: Place, address: Address) -> tuple[Place, ...]:
    """Return ``places`` with ``seen``; the same tuple if it already has it."""
    at = bisect_left(places, seen.sequence, key=_sequence)
    before, after = places[max(at - 1, 0) : at], places[at : at + 1]
    if after and after[0].sequence == seen.sequence:
        if after[0] != seen:
            raise _contradiction(
                f"fork: the coordinator at {address} is at {seen}, but was at {after[0]} before"
            )
        return places
    if any(one.epoch > seen.epoch for one in before) or any(
        one.epoch < seen.epoch for one in after
    ):
        other = next(iter((*after, *before)))
        raise _contradiction(
            f"contradiction: the coordinator at {address} is at {seen}, but was at {other} before"
        )
    return (*places[:at], seen, *places[at:])[-KEPT:]


def _sequence(place: Place) -> int:
    return place.sequence


def _key(address: Address) -> str:
    return str(address).lower()


def _contradiction(problem: str) -> TrustError:
    return TrustError(
        problem,
        hint="an older copy of its state was put back, or two copies run: find out which, and send"
        " it nothing; to continue from this state on purpose: keyhouse trust forget HOST",
    )


_HEAD: Final = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{16})", re.ASCII)


def log_head_in(text: str) -> LogHead | None:
    """Return the head in ``text``, or None for any other text."""
    match_ = _HEAD.fullmatch(text)
    return LogHead(int(match_[1]), match_[2]) if match_ is not None else None
