"""How long this process may serve by what witnesses have cosigned.

A host can start a coordinator from an old disk, or twice. So, where the manifest says so, nothing
is served before a quorum has cosigned a checkpoint that covers a leaf with random bytes of this
process: no cosignature over it can exist before. That lasts for a time and for a number of
operations, whichever ends first: a host can stop the clock. Then another such leaf, an anchor,
must be cosigned. What is not served meanwhile is held.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.manifest import Anchored, Serving, Transparency
from keyhouse.transparency.policy import Policy

MOST_WAITING: Final = 256
"""Leaves that may wait for witnesses while the coordinator serves."""

PATIENCE: Final = 5.0
"""Seconds that an answer waits for witnesses, where it waits for them."""

_SECOND: Final = 1_000_000

STARTING: Final = "witnesses have not cosigned the start of this process yet"
NO_QUORUM: Final = "no quorum of the witnesses has cosigned for too long"
ROLLED_BACK: Final = "rolled back: witnesses have seen a newer state of this deployment"
FORKED: Final = "forked: witnesses have seen another history of this deployment"
DAMAGED: Final = "files of the transparency log are damaged, so witnesses cannot be shown a proof"


class HeldError(UnavailableError):
    """The coordinator serves nothing of this kind until witnesses have cosigned its state."""

    code = "held"


class Mark(msgspec.Struct, frozen=True):
    """A moment: microseconds of this process, and operations that it has carried out."""

    elapsed: int
    operations: int


class Left(msgspec.Struct, frozen=True):
    """The rest of a lease: whole seconds, and operations in tenths of the manifest's number."""

    seconds: int
    operations: int


class _Nonce(msgspec.Struct, frozen=True):
    """A leaf with random bytes of this process: a log of ``size`` leaves has it."""

    size: int
    made: Mark  # before the leaf


class Lease:
    """Used by the event loop only. ``elapsed`` returns microseconds, which never decrease.

    ``instance`` is what the start of this process has in the log. ``work`` is set when there may be
    something to submit.
    """

    def __init__(self, elapsed: Callable[[], int], instance: bytes) -> None:
        self._elapsed = elapsed
        self._instance = instance
        self._manifest = b""
        self._rules = Transparency()
        self._operations = 0
        self._size = 0
        self._decided = 0
        self._nonce: _Nonce | None = None
        self._ends: Mark | None = None  # None: nothing of this process is cosigned
        self._trouble = ""
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._demanded: list[asyncio.Future[bool]] = []
        self._began = self.mark()
        self.former: tuple[str, ...] = ()
        self.policies: tuple[Policy, ...] = ()  # the quorum of each is needed, in this order
        self.witnessed = 0  # the size of the log that a quorum has cosigned
        self.checkpoint = b""  # of that size, with the cosignatures
        self.is_condemned = False  # until a restart
        self.is_enforced = False
        self.work: Final = asyncio.Event()

    def mark(self) -> Mark:
        """Return this moment."""
        return Mark(self._elapsed(), self._operations)

    def begin(self) -> None:
        """Take this moment for that of the start, if its leaf is not in the log yet."""
        if self._nonce is None:
            self._began = self.mark()

    def follow(self, state: State) -> None:
        """Take over ``state``, which is published."""
        if not isinstance(state, Running) or state.public_log is None:
            return
        former = state.public_log.former
        if state.manifest is not self._manifest or former != self.former:
            self._manifest, self.former = state.manifest, former
            rules = policy_of(state.manifest).manifest.config.transparency
            self._adopt(rules or Transparency())
        self._size, self._decided = state.public_log.frontier.size, state.public_log.decided
        if self._nonce is None and state.instance == self._instance:
            self._nonce = _Nonce(self._size, self._began)
        if self.policies:
            self.work.set()

    def require(self) -> None:
        """Return if the coordinator may serve. Raises ``HeldError``."""
        if self.is_enforced and (reason := self.held):
            raise HeldError(
                f"the coordinator is held: {reason}",
                hint="see keyhouse status; its operator has to make sure that this is the newest"
                " state, and that it reaches the witnesses",
            )

    def require_decisions(self) -> None:
        """Return if a quorum has cosigned every decision, where the manifest says ``Witnessed``.

        New holders and newly admitted code get nothing before. Else an update that nobody outside
        has seen gives the data key away, and an older copy, which is cosigned, shows nothing of it.
        Raises ``HeldError``.
        """
        if self.is_enforced and self.witnessed < self._decided:
            raise HeldError(
                "witnesses have not cosigned the newest manifest yet", hint="try again later"
            )

    def spend(self) -> None:
        """Count an operation that is served now. Raises ``HeldError``."""
        self.require()
        self._operations += 1
        if self.is_due:
            self.work.set()

    @property
    def held(self) -> str:
        """Why nothing is served where the manifest says ``Witnessed``; empty: it is served."""
        ends, now = self._ends, self.mark()
        if self.is_condemned:
            return self._trouble
        if ends is None:
            return self._trouble or STARTING
        if now.elapsed >= ends.elapsed or now.operations >= ends.operations:
            return self._trouble or NO_QUORUM
        return NO_QUORUM if self._size - self.witnessed > MOST_WAITING else ""

    @property
    def note(self) -> str:
        """What to tell people of what witnesses have not cosigned; empty: there is nothing."""
        reason = self.held if self.policies else ""
        return reason and (f"held: {reason}" if self.is_enforced else f"served although {reason}")

    @property
    def left(self) -> Left | None:
        """The rest of the lease, both numbers 0 if it has ended; None: there are no witnesses.

        Anybody may read it. The operations are rounded down to a tenth of ``LeaseOperations``, so
        no caller can count single reads of others.
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
        """Whether an anchor has to be made: half of what the last one is good for is used up."""
        if self._demanded:
            return True
        nonce = self._nonce
        if nonce is None or nonce.size > self.witnessed:
            return nonce is None and self._size > 0
        return self.seconds_left <= 0 or (
            self._operations - nonce.made.operations >= (self._rules.lease_operations + 1) // 2
        )

    @property
    def seconds_left(self) -> float:
        """Seconds until an anchor is due by time."""
        made = self._nonce.made.elapsed if self._nonce is not None else 0
        return self._rules.lease_seconds / 2 - (self._elapsed() - made) / _SECOND

    @property
    def is_behind(self) -> bool:
        """Whether there are leaves that no quorum has cosigned."""
        return self._ends is None or self.witnessed < self._size

    @property
    def is_urgent(self) -> bool:
        """Whether someone waits for witnesses, or an anchor does, or many leaves do."""
        pending = self._nonce is None or self._nonce.size > self.witnessed
        many = self._size - self.witnessed > MOST_WAITING // 4
        return bool(pending or many or self._waiting or self._demanded or self._ends is None)

    def granted(self, size: int, checkpoint: bytes) -> None:
        """Take over that all quorums cosigned ``checkpoint``, of the first ``size`` leaves."""
        self.witnessed, self.checkpoint = size, checkpoint
        nonce, rules = self._nonce, self._rules
        if nonce is not None and size >= nonce.size:
            self._ends = Mark(
                nonce.made.elapsed + rules.lease_seconds * _SECOND,
                nonce.made.operations + rules.lease_operations,
            )
            self._trouble = ""
        for wanted, waiting in self._waiting:
            if wanted <= size and not waiting.done():
                waiting.set_result(True)
        self._waiting = [each for each in self._waiting if not each[1].done()]

    def refused(self, trouble: str, *, lasting: bool) -> None:
        """Take over that there was no quorum, and why; if ``lasting``, until a restart."""
        self._trouble = trouble
        self.is_condemned = lasting
        if lasting:  # nobody waits for what will not come
            for waiting in (*(each for _, each in self._waiting), *self.demands()):
                if not waiting.done():
                    waiting.set_result(False)
            self._waiting = []

    def demands(self) -> "list[asyncio.Future[bool]]":
        """Return who waits for an anchor that begins from now on."""
        found, self._demanded = self._demanded, []
        return found

    def demand(self, waiting: "list[asyncio.Future[bool]]") -> None:
        """Have an anchor made for those who are ``waiting``."""
        self._demanded += [each for each in waiting if not each.done()]

    def anchored(self, size: int, made: Mark, demands: "list[asyncio.Future[bool]]") -> None:
        """Take over that an anchor, begun at ``made``, is in the log of ``size``."""
        self._nonce = _Nonce(size, made)
        self._waiting += [(size, each) for each in demands]

    async def told(self, *, patience: float = PATIENCE) -> bool | None:
        """Wait until a quorum has cosigned all that is durable now; tell whether it has.

        None: there are no witnesses.
        """
        if not self.policies:
            return None
        if self.is_condemned or self.witnessed >= self._size:
            return not self.is_condemned
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._size, waiting))
        return await self._awaited(waiting, patience)

    async def anchor(self, what: Anchored, *, patience: float = PATIENCE) -> bool:
        """Wait until a quorum has cosigned where the journal stands now, if ``what`` has to.

        Tell whether it has.
        """
        if not self.policies or self.is_condemned or what not in self._rules.anchor_before:
            return False
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.demand([waiting])
        return await self._awaited(waiting, patience)

    async def _awaited(self, waiting: "asyncio.Future[bool]", patience: float) -> bool:
        self.work.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                return await waiting
        return False

    def _adopt(self, rules: Transparency) -> None:
        """Go by ``rules`` from now on: other witnesses begin where those before agree."""
        before, self._rules = self._rules, rules
        policy = Policy.read(rules.witnesses) if rules.witnesses else None
        former = tuple(map(Policy.read, self.former))
        needed = policy is not None and policy.quorum is not None
        self.policies = (*former, policy) if policy is not None and needed else ()
        if rules.witnesses != before.witnesses:
            self._ends, self.witnessed, self.checkpoint = None, 0, b""
        self.is_enforced = rules.serve == Serving.WITNESSED
