"""The states of coordinators that a client remembers, to detect rollbacks.

No single quote can show a rollback. A quote proves the coordinator's code and root, but not the
age of the state. A host can restore an older copy of everything, or run two copies that diverge.

But with a manifest in force, every answer carries ``Keyhouse-State: <epoch>.<sequence>.<chain>``.
This is the coordinator's place in an append-only journal. A place that a client has seen must stay
valid forever:

====================================================  =============================================
another root certificate at an address                another deployment answers
a lower sequence than was known when the call began   rollback: an older copy
an equal sequence with another chain or epoch         fork: two copies have diverged
epochs do not rise with the sequences                 contradiction: no single journal has both
no place in the answer, but a place before            the state is lost
====================================================  =============================================

Places cannot show an older copy that has grown beyond the remembered places. The transparency log
can: its head is in the header ``Keyhouse-Log``. The first remembered head is proven to continue all
earlier heads, or is the first head ever seen. The further heads came later and are not proven yet.
Any later proof must show that the log continues all of them. An older copy fails this proof: its
log has a leaf for the start of the copy, which the remembered log does not have at this place.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.client.effects import HttpAnswer
from keyhouse.client.errors import TrustError
from keyhouse.client.memory.lines import SeenLine, extended_line
from keyhouse.wire.address import Address
from keyhouse.wire.headers import LogHead, Place, place_in

if TYPE_CHECKING:
    from keyhouse.transparency.line import RootLine

Heads = tuple[LogHead, ...]


class ProvenHead(NamedTuple):
    """A head that is proven to continue the heads in ``covers``."""

    head: LogHead
    covers: Heads


AHEAD: Final = 256
"""Leaves by which a log may grow in a session before its client demands a proof."""

MOST_HEADS: Final = 1_000
"""Heads that are remembered for each deployment."""

_HINT: Final = (
    "send nothing, and find out whether an older copy of the state was restored, or two copies"
    " run; to continue from the present state on purpose: keyhouse trust forget HOST"
)


def read_head(text: str) -> LogHead:
    """Parse ``text``, the value of the header ``Keyhouse-Log``. Raises ``TrustError``."""
    head = log_head_in(text)
    if head is None:
        raise log_contradiction(
            "the header Keyhouse-Log cannot be read in the coordinator's answer"
        )
    return head


def log_contradiction(problem: str) -> TrustError:
    """Return the error for a log that contradicts the memory. ``problem`` states how."""
    return TrustError(problem, hint=_HINT)


def require_continued(known: Heads, seen: LogHead | None, address: Address) -> None:
    """Require that ``seen``, the log head of an answer, does not contradict the heads ``known``.

    ``known`` are the remembered heads from before the call.

    Raises ``TrustError`` for a smaller log, for a different log of equal size, and for a missing
    head.
    """
    if not known:
        return
    newest = known[-1]
    if seen is None:
        raise log_contradiction(
            f"the coordinator at {address} shows no head of its log; the head was {newest} before"
        )
    if seen.size < newest.size:
        raise log_contradiction(
            f"rollback: the log of the coordinator at {address} is {seen}, but was {newest} before"
        )
    if seen.size == newest.size and seen != newest:
        raise _fork(address, seen, newest)


def with_head(heads: Heads, seen: LogHead, address: Address) -> Heads:
    """Return ``heads`` with the head ``seen``.

    The result is ``heads`` itself if it contains ``seen``, or begins with a larger head. Raises
    ``TrustError`` if ``heads`` has a different head of this size.
    """
    same = next((one for one in heads if one.size == seen.size), None)
    if same is not None and same != seen:
        raise _fork(address, seen, same)
    # The head is smaller than the first if a newer answer overtook this answer.
    if same is not None or (heads and seen.size < heads[0].size):
        return heads
    if len(heads) >= MOST_HEADS:
        raise log_contradiction(
            f"the log of the coordinator at {address} must continue the {len(heads)} heads in the"
            " memory, but no proof of this has succeeded"
        )
    return tuple(sorted((*heads, seen), key=_size))


def with_proven(heads: Heads, proof: ProvenHead, address: Address) -> Heads:
    """Return the heads after a proof: the proven head, and the heads that the proof does not cover.

    Uncovered heads came during the proof, perhaps from another process. Raises ``TrustError`` as
    ``with_head`` does.
    """
    merged = with_head(heads, proof.head, address)
    others = [one for one in merged if one not in proof.covers and one != proof.head]
    return tuple(sorted((proof.head, *others), key=_size))


def _size(head: LogHead) -> int:
    return head.size


def _fork(address: Address, seen: LogHead, known: LogHead) -> TrustError:
    return log_contradiction(
        f"fork: the log of the coordinator at {address} is {seen}, but was {known} before"
    )


MOST_PLACES: Final = 1_000
"""Places that are remembered for each deployment: the newest places."""

MOST_ADDRESSES: Final = 100
"""Addresses that are remembered."""

_SERVER_ERROR: Final = 500  # the first HTTP status of server errors


class MemoryFullError(RefusedError):
    """The memory has no room for a further coordinator."""

    code = "memory-full"


class Memories(msgspec.Struct, frozen=True):
    """All memories of a client. Places ascend by sequence, and their epochs never fall."""

    roots: dict[str, str] = {}  # ``host:port`` to the SHA-256 of the root certificate, in hex
    places: dict[str, tuple[Place, ...]] = {}  # the same SHA-256 to places under this root
    heads: dict[str, Heads] = {}  # the same SHA-256 to heads of the log
    lines: dict[str, SeenLine] = {}  # the same SHA-256 to the line

    def root_at(self, address: Address) -> str:
        """Return the SHA-256 (hex) of the remembered root at ``address``; "" without a root."""
        return self.roots.get(_key(address), "")

    def highest(self, root: str) -> Place | None:
        """Return the newest place under ``root``, a SHA-256 in hex."""
        places = self.places.get(root, ())
        return places[-1] if places else None


class StateMemory(Protocol):
    """The interface of a store for ``Memories``: a file, or the memory of a process."""

    def read(self) -> Memories:
        """Return the remembered states of all coordinators."""
        ...

    def change(self, step: Callable[[Memories], Memories]) -> None:
        """Replace the memories by the result of ``step``, durably and atomically."""
        ...


class Watch:
    """Checks the answers of one coordinator against ``memory``, if there is a memory."""

    def __init__(self, memory: StateMemory | None, address: Address, root_der: bytes) -> None:
        self.root_der = root_der
        self._memory = memory
        self._address = address
        self._root = hashlib.sha256(root_der).hexdigest()

    def begin(self) -> Memories:
        """Return the remembered states before a call. The answer to the call must not be older."""
        return self._memory.read() if self._memory is not None else Memories()

    def newest(self, known: Memories) -> Place | None:
        """Return the newest place of the coordinator's journal in ``known``."""
        return known.highest(self._root)

    def heads(self, known: Memories) -> Heads:
        """Return the remembered heads of the transparency log in ``known``."""
        return known.heads.get(self._root, ())

    def line(self, known: Memories) -> SeenLine | None:
        """Return the remembered line of the coordinator's root in ``known``."""
        return known.lines.get(self._root)

    def remember_line(self, line: "RootLine", *, accepted: bool = False) -> None:
        """Remember the proven ``line``. If ``accepted``, the user has accepted its manifests."""
        if self._memory is None:
            return

        def step(memories: Memories) -> Memories:
            seen = extended_line(line, self.line(memories))
            if accepted:
                seen = msgspec.structs.replace(seen, accepted=max(seen.accepted, len(line.raw)))
            return with_line(memories, self._root, seen)

        self._memory.change(step)

    def remember_first(self, manifest: str) -> None:
        """Remember the fingerprint of the first manifest, which this user has set."""
        if self._memory is not None:
            seen = SeenLine(manifest, accepted=1)
            self._memory.change(lambda memories: with_line(memories, self._root, seen))

    def unproven(self, known: Memories, answer: HttpAnswer, ahead: int) -> Heads:
        """Return the heads that need a proof before ``answer`` is used: the log continues them.

        No head is returned in four cases: there is no memory, no head is remembered, the answer is
        a failure without a state, or the log has at most ``ahead`` leaves more than the last proven
        head. Raises ``TrustError`` for an answer that contradicts ``known``.
        """
        if self._memory is None or _is_without_state(answer):
            return ()
        heads, seen = self.heads(known), _head_of(answer)
        require_continued(heads, seen, self._address)
        if not heads or seen is None or seen.size - heads[0].size <= ahead:
            return ()
        return with_head(heads, seen, self._address)

    def check(self, known: Memories, answer: HttpAnswer, proof: ProvenHead | None = None) -> None:
        """Check ``answer`` against the memory, and remember the state in the answer.

        ``known`` are the memories from before the call. ``proof`` is a head that is proven to
        continue the remembered heads. Raises ``TrustError``, and the errors of an unusable memory.
        """
        if self._memory is None or _is_without_state(answer):
            return
        place = read_place(answer.state) if answer.state is not None else None
        head = _head_of(answer)
        require_continued(self.heads(known), head, self._address)

        def step(memories: Memories) -> Memories:
            newest = self.newest(known)
            updated = with_state(memories, self._address, self._root, newest, place)
            return self._with_head(updated, head, proof)

        self._memory.change(step)

    def _with_head(
        self, memories: Memories, head: LogHead | None, proof: ProvenHead | None
    ) -> Memories:
        before = self.heads(memories)
        if head is None or self._root not in memories.places:
            return memories
        heads = with_head(before, head, self._address)
        if proof is not None:
            heads = with_proven(heads, proof, self._address)
        if heads == before:
            return memories
        return msgspec.structs.replace(memories, heads={**memories.heads, self._root: heads})


def _is_without_state(answer: HttpAnswer) -> bool:
    """Return whether the answer is a server error (HTTP 5xx) without ``Keyhouse-State``."""
    return answer.state is None and answer.http_status >= _SERVER_ERROR


def _head_of(answer: HttpAnswer) -> LogHead | None:
    return read_head(answer.log) if answer.log is not None else None


def read_place(text: str) -> Place:
    """Parse ``text``, the value of the header ``Keyhouse-State``. Raises ``TrustError``."""
    place = place_in(text)
    if place is None:
        raise _state_contradiction(
            "the header Keyhouse-State cannot be read in the coordinator's answer"
        )
    return place


def require_root_of(memories: Memories, address: Address, root: str) -> None:
    """Raise ``TrustError`` if ``memories`` has a root other than ``root`` at ``address``.

    ``root`` is a SHA-256 in hex.
    """
    known = memories.root_at(address)
    if known and known != root:
        raise TrustError(
            f"the root certificate at {address} has changed: its SHA-256 is {root},"
            f" must be {known}",
            hint="check whether the coordinator waits for its recovery: keyhouse status --memory"
            f" none; if you expect a new deployment: keyhouse trust forget {address}",
        )


def with_state(
    memories: Memories, address: Address, root: str, known: Place | None, seen: Place | None
) -> Memories:
    """Return ``memories`` with the place ``seen`` at ``address`` under ``root`` (SHA-256, hex).

    ``seen`` is the place in an answer, None if the answer has no place. ``known`` is the newest
    remembered place when the call began. So answers that overtake each other do not count as a
    rollback. Raises ``TrustError``, or ``MemoryFullError``.
    """
    require_root_of(memories, address, root)
    if seen is None:
        if known is not None:
            raise _state_contradiction(
                f"the coordinator at {address} shows no state; the state was {known} before"
            )
        return memories
    if known is not None and seen.sequence < known.sequence:
        raise _state_contradiction(
            f"rollback: the coordinator at {address} is at {seen}, but was at {known} before"
        )
    places = _with_place(memories.places.get(root, ()), seen, address)
    if memories.root_at(address) == root and places is memories.places.get(root):
        return memories
    roots = {**memories.roots, _key(address): root}
    if len(roots) > MOST_ADDRESSES:
        raise MemoryFullError(
            f"the memory has {MOST_ADDRESSES} addresses of coordinators, and cannot have more",
            hint="remove an address: keyhouse trust forget HOST; or name another file: --memory"
            " FILE",
        )
    return msgspec.structs.replace(memories, roots=roots, places={**memories.places, root: places})


def forgotten(memories: Memories, address: Address) -> Memories:
    """Return ``memories`` without the deployment at ``address`` and all its further addresses."""
    root = memories.root_at(address)
    return Memories(
        {where: other for where, other in memories.roots.items() if other != root},
        {other: places for other, places in memories.places.items() if other != root},
        {other: heads for other, heads in memories.heads.items() if other != root},
        {other: line for other, line in memories.lines.items() if other != root},
    )


def with_line(memories: Memories, root: str, seen: SeenLine) -> Memories:
    """Return ``memories`` with the line ``seen`` of ``root`` (SHA-256, hex).

    Without places under this root, return ``memories`` unchanged.
    """
    if root not in memories.places or memories.lines.get(root) == seen:
        return memories
    return msgspec.structs.replace(memories, lines={**memories.lines, root: seen})


def _with_place(places: tuple[Place, ...], seen: Place, address: Address) -> tuple[Place, ...]:
    """Return ``places`` with ``seen``, or the same tuple if ``places`` contains ``seen``."""
    at = bisect_left(places, seen.sequence, key=_sequence)
    before, after = places[max(at - 1, 0) : at], places[at : at + 1]
    if after and after[0].sequence == seen.sequence:
        if after[0] != seen:
            raise _state_contradiction(
                f"fork: the coordinator at {address} is at {seen}, but was at {after[0]} before"
            )
        return places
    if any(one.epoch > seen.epoch for one in before) or any(
        one.epoch < seen.epoch for one in after
    ):
        other = next(iter((*after, *before)))
        raise _state_contradiction(
            f"contradiction: the coordinator at {address} is at {seen}, but was at {other} before"
        )
    return (*places[:at], seen, *places[at:])[-MOST_PLACES:]


def _sequence(place: Place) -> int:
    return place.sequence


def _key(address: Address) -> str:
    return str(address).lower()


def _state_contradiction(problem: str) -> TrustError:
    return TrustError(problem, hint=_HINT)


_HEAD: Final = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{16})", re.ASCII)


def log_head_in(text: str) -> LogHead | None:
    """Return the log head in ``text``, the value of ``Keyhouse-Log``; None if it is invalid."""
    match_ = _HEAD.fullmatch(text)
    return LogHead(int(match_[1]), match_[2]) if match_ is not None else None
