"""The lease: the time and the operations that cosignatures of witnesses permit to this process.

A host can start a coordinator from an old disk, or start it twice. Each copy would serve secrets
with valid keys. With ``Serve: Witnessed`` in the manifest, a process serves only under a lease:

1. A process appends a leaf with its random bytes to the transparency log. No earlier cosignature
   covers these bytes.
2. Witnesses cosign a checkpoint that covers the leaf, if the log continues the log that they know.
   They refuse an older copy and a second history.
3. A quorum of cosignatures grants a lease. The lease ends after a time or after a number of
   operations, whichever comes first, because a host can stop the clock.
4. Before the end, the process appends another such leaf, an anchor, and submits again. Without a
   lease, requests are refused with the code ``held``.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.manifest import Anchored, ServeCondition, Transparency
from keyhouse.transparency.policy import CosignaturePolicy

MOST_WAITING: Final = 256
"""Maximum of leaves without a cosignature while the coordinator serves."""

PATIENCE: Final = 5.0
"""Seconds that a request waits for a cosignature."""

_SECOND: Final = 1_000_000  # microseconds

STARTING: Final = "witnesses have not cosigned the start of this process yet"
NO_QUORUM: Final = "no quorum of the witnesses has cosigned for too long"
ROLLED_BACK: Final = "rolled back: witnesses have seen a newer state of this deployment"
FORKED: Final = "forked: witnesses have seen another history of this deployment"
DAMAGED: Final = "files of the transparency log are damaged, so no proof for the witnesses exists"


class HeldError(UnavailableError):
    """Requests of this kind are refused until witnesses have cosigned the state."""

    code = "held"


class LeaseMoment(msgspec.Struct, frozen=True):
    """A moment of this process: microseconds, and the number of operations so far."""

    elapsed: int
    operations: int


class Left(msgspec.Struct, frozen=True):
    """The rest of a lease: whole seconds and operations, rounded down (see ``Lease.left``)."""

    seconds: int
    operations: int


class _Nonce(msgspec.Struct, frozen=True):
    """The last leaf of a log with ``size`` leaves: an anchor, or the start of this process."""

    size: int
    made: LeaseMoment  # a moment before the leaf


class Lease:
    """The permission of this process to serve, by cosignatures. For the event loop only.

    ``elapsed`` returns microseconds that never decrease. ``instance``: the random bytes in the leaf
    of this process's start. ``work`` is set when a new submission may be necessary.
    """

    def __init__(self, elapsed: Callable[[], int], instance: bytes) -> None:
        self._elapsed = elapsed
        self._instance = instance
        self._rules = Transparency()
        self._operations = 0
        self._size = 0
        self._decided = 0
        self._nonce: _Nonce | None = None
        self._ends: LeaseMoment | None = None  # None: no leaf of this process is cosigned
        self._reason = ""
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._anchor_waiters: list[asyncio.Future[bool]] = []
        self._began = self.mark()
        self.manifest = b""  # the last followed manifest
        self.former: tuple[str, ...] = ()
        self.policies: tuple[CosignaturePolicy, ...] = ()  # each needs a quorum, in this order
        self.witnessed = 0  # size of the newest checkpoint with a quorum
        self.checkpoint = b""  # that checkpoint, with cosignatures
        self.is_condemned = False  # no lease until a restart
        self.is_enforced = False
        self.work: Final = asyncio.Event()

    def mark(self) -> LeaseMoment:
        """Return the present time and the number of operations so far."""
        return LeaseMoment(self._elapsed(), self._operations)

    def begin(self) -> None:
        """Start the time of the first lease now, if the leaf of the start is not in the log yet.

        Call this before each append of that leaf.
        """
        if self._nonce is None:
            self._began = self.mark()

    def follow(self, state: State) -> None:
        """Use the manifest of the published ``state``: its witnesses and its lease."""
        if not isinstance(state, Running) or state.public_log is None:
            return
        former = state.public_log.former
        if state.manifest is not self.manifest or former != self.former:
            self.manifest, self.former = state.manifest, former
            rules = policy_of(state.manifest).manifest.config.transparency
            self._adopt(rules or Transparency())
        self._size, self._decided = state.public_log.frontier.size, state.public_log.decided
        if self._nonce is None and state.instance == self._instance:
            self._nonce = _Nonce(self._size, self._began)
        if self.policies:
            self.work.set()

    def require(self) -> None:
        """Verify that the coordinator may serve. Raises ``HeldError``."""
        if self.is_enforced and (reason := self.held):
            raise HeldError(
                f"the coordinator is held: {reason}",
                hint="let the operator read keyhouse status, and verify that this is the newest"
                " state and that the coordinator reaches the witnesses",
            )

    def require_decisions(self) -> None:
        """Verify that a quorum has cosigned every decision, if the manifest requires witnesses.

        Until then, new holders of shares and newly admitted code receive nothing. Otherwise the
        data key could leave by an update that no witness has seen. The host could then continue
        from an older copy, whose log shows no trace of the update. Raises ``HeldError``.
        """
        if self.is_enforced and self.witnessed < self._decided:
            raise HeldError(
                "witnesses have not cosigned the newest manifest yet", hint="try again later"
            )

    def charge(self) -> None:
        """Count an operation that the lease permits. Raises ``HeldError``."""
        self.require()
        self._operations += 1
        if self.is_due:
            self.work.set()

    @property
    def held(self) -> str:
        """The reason to refuse requests, if the manifest requires witnesses; empty: serve them."""
        ends, now = self._ends, self.mark()
        if self.is_condemned:
            return self._reason
        if ends is None:
            return self._reason or STARTING
        if now.elapsed >= ends.elapsed or now.operations >= ends.operations:
            return self._reason or NO_QUORUM
        return NO_QUORUM if self._size - self.witnessed > MOST_WAITING else ""

    @property
    def note(self) -> str:
        """A text for people about missing cosignatures; empty: nothing is missing."""
        reason = self.held if self.policies else ""
        return reason and (f"held: {reason}" if self.is_enforced else f"served although {reason}")

    @property
    def left(self) -> Left | None:
        """The rest of the lease, with zeros after its end; None without witnesses.

        The value is public. The operations are rounded down to a tenth of ``LeaseOperations``, so a
        client cannot count single reads of other clients.
        """
        if not self.policies:
            return None
        if self._ends is None or self.held:
            return Left(0, 0)
        now, tenth = self.mark(), max(self._rules.lease_operations // 10, 1)
        operations = self._ends.operations - now.operations
        return Left((self._ends.elapsed - now.elapsed) // _SECOND, operations - operations % tenth)

    @property
    def is_due(self) -> bool:
        """True if an anchor is necessary: a request waits for it, or half of the lease is used.

        The second half is the time for the next quorum, so the coordinator serves without a pause.
        """
        if self._anchor_waiters:
            return True
        nonce = self._nonce
        if nonce is None or nonce.size > self.witnessed:
            return nonce is None and self._size > 0
        return self.seconds_left <= 0 or (
            self._operations - nonce.made.operations >= (self._rules.lease_operations + 1) // 2
        )

    @property
    def seconds_left(self) -> float:
        """Seconds until half of the lease has passed: then a new anchor needs cosignatures."""
        made = self._nonce.made.elapsed if self._nonce is not None else 0
        return self._rules.lease_seconds / 2 - (self._elapsed() - made) / _SECOND

    @property
    def is_behind(self) -> bool:
        """True if the log has leaves that no quorum of the witnesses has cosigned."""
        return self._ends is None or self.witnessed < self._size

    @property
    def is_urgent(self) -> bool:
        """True if a request, an anchor, or many leaves wait for witnesses."""
        pending = self._nonce is None or self._nonce.size > self.witnessed
        many = self._size - self.witnessed > MOST_WAITING // 4
        return bool(pending or many or self._waiting or self._anchor_waiters or self._ends is None)

    def on_quorum(self, size: int, checkpoint: bytes) -> None:
        """Record that a quorum of each policy cosigned ``checkpoint`` over ``size`` leaves."""
        self.witnessed, self.checkpoint = size, checkpoint
        nonce, rules = self._nonce, self._rules
        if nonce is not None and size >= nonce.size:
            self._ends = LeaseMoment(
                nonce.made.elapsed + rules.lease_seconds * _SECOND,
                nonce.made.operations + rules.lease_operations,
            )
            self._reason = ""
        for size_needed, waiting in self._waiting:
            if size_needed <= size and not waiting.done():
                waiting.set_result(True)
        self._waiting = [each for each in self._waiting if not each[1].done()]

    def on_refusal(self, reason: str, *, lasting: bool) -> None:
        """Record the ``reason`` of a missing quorum.

        ``lasting``: no quorum is possible until a restart, so no request waits any longer.
        """
        self._reason = reason
        self.is_condemned = lasting
        if lasting:  # no quorum will come, so no request may wait for it
            for waiting in (*(each for _, each in self._waiting), *self.take_waiters()):
                if not waiting.done():
                    waiting.set_result(False)
            self._waiting = []

    def take_waiters(self) -> "list[asyncio.Future[bool]]":
        """Return and remove the requests that wait for an anchor not yet begun."""
        waiters, self._anchor_waiters = self._anchor_waiters, []
        return waiters

    def add_waiters(self, waiting: "list[asyncio.Future[bool]]") -> None:
        """Request an anchor for the requests in ``waiting``."""
        self._anchor_waiters += [each for each in waiting if not each.done()]

    def on_anchor(
        self, size: int, made: LeaseMoment, waiters: "list[asyncio.Future[bool]]"
    ) -> None:
        """Record that the log of ``size`` leaves has an anchor, prepared at ``made``.

        ``waiters``: the requests that wait until a quorum has cosigned this anchor.
        """
        self._nonce = _Nonce(size, made)
        self._waiting += [(size, each) for each in waiters]

    async def wait_cosigned(self, *, patience: float = PATIENCE) -> bool | None:
        """Wait until a quorum has cosigned all durable leaves; return True then.

        Return False after ``patience`` seconds, or if no quorum is possible until a restart. Return
        None if the manifest requires no witnesses.
        """
        if not self.policies:
            return None
        if self.is_condemned or self.witnessed >= self._size:
            return not self.is_condemned
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._size, waiting))
        return await self._wait(waiting, patience)

    async def wait_if_anchored(self, what: Anchored) -> bool | None:
        """Wait as ``wait_cosigned``, if the manifest demands this for the operation ``what``.

        The field ``AnchorBefore`` lists such operations. For the rest, return None. Use this for an
        operation with a leaf of its own, instead of ``anchor``.
        """
        return await self.wait_cosigned() if what in self._rules.anchor_before else None

    async def anchor(self, what: Anchored, *, patience: float = PATIENCE) -> bool:
        """Wait until a quorum has cosigned the present position of the journal.

        Return whether this happened within ``patience`` seconds. Return False at once if the
        manifest requires no anchor before an operation of the kind ``what``.
        """
        if not self.policies or self.is_condemned or what not in self._rules.anchor_before:
            return False
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.add_waiters([waiting])
        return await self._wait(waiting, patience)

    async def _wait(self, waiting: "asyncio.Future[bool]", patience: float) -> bool:
        self.work.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                return await waiting
        return False

    def _adopt(self, rules: Transparency) -> None:
        """Adopt ``rules``. New witnesses count only after the former witnesses have cosigned."""
        before, self._rules = self._rules, rules
        policy = CosignaturePolicy.read(rules.witnesses) if rules.witnesses else None
        former = tuple(map(CosignaturePolicy.read, self.former))
        needed = policy is not None and policy.quorum is not None
        self.policies = (*former, policy) if policy is not None and needed else ()
        if rules.witnesses != before.witnesses:
            self._ends, self.witnessed, self.checkpoint = None, 0, b""
        self.is_enforced = rules.serve == ServeCondition.WITNESSED
