"""One checkpoint, submitted to witnesses: to one, or to all of a policy at once."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, Protocol, Self

import msgspec

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.coordinator.core.state import PublicLog
from keyhouse.journal import LogStore, StoreUnreadableError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, cosigned
from keyhouse.transparency.note import Signature, SignedNote
from keyhouse.transparency.policy import Policy, Witness
from keyhouse.transparency.tiles import nodes_of, tiles_read
from keyhouse.transparency.tree import Nodes, consistency_proof, require_consistent, root_of
from keyhouse.witnesses.told import Contradicts, Cosigned, OtherSize, Told

TURNS: Final = 4
"""How often a witness is asked again because it has another size: replicas submit side by side."""


class Asks(Protocol):
    """What submits to witnesses."""

    def add_checkpoint(
        self, witness: Witness, old: int, proof: Sequence[bytes], note: bytes
    ) -> Awaitable[Told]:
        """Return what ``witness`` says. Raises ``UnavailableError``."""
        ...


class ProofFailedError(KeyhouseError):
    """No proof that our own log continues itself: its files are damaged or lost."""

    code = "log-damaged"


class Outcome(msgspec.Struct, frozen=True):
    """What a witness said. None of the fields: not now, for the reason ``why``."""

    note: SignedNote | None = None  # with its cosignature, which holds
    has: int = 0  # the size of a larger checkpoint that it says it has
    contradicts: bool = False
    damaged: bool = False
    why: str = ""


class Submission:
    """The checkpoint of ``log``, and the ``tile`` that proofs about it are made from.

    ``note`` has our own signature alone: witnesses read notes only up to some length.
    """

    def __init__(self, log: PublicLog, note: bytes, store: LogStore) -> None:
        self.size = log.frontier.size
        self.note = SignedNote.read(note)
        self._root = log.frontier.root
        self._store = store
        self._proofs: dict[int, list[bytes]] = {}  # most witnesses have the same size

    async def to(self, witness: Witness, old: int, asks: Asks) -> Outcome:
        """Submit to ``witness``, which had ``old`` leaves as far as is known."""
        old = min(old, self.size)
        try:
            told = await self._asked(witness, old, asks)
            for _ in range(TURNS):
                if not isinstance(told, OtherSize) or not old != told.size <= self.size:
                    break
                old = told.size
                told = await self._asked(witness, old, asks)
            if told == OtherSize(self.size) and old == self.size:
                told = Contradicts()  # so a tree of this size with another root is refused
            return self._outcome(told, witness.key)
        except ProofFailedError as failed:
            return Outcome(damaged=True, why=failed.message)
        except UnavailableError as error:
            return Outcome(why=error.message)

    def _outcome(self, told: Told, key: VerifierKey) -> Outcome:
        match told:
            case Cosigned(lines):
                try:
                    return Outcome(cosigned(self.note, lines, key))
                except LogInvalidError:
                    return Outcome(why="its cosignature does not hold")
            case OtherSize(size) if size > self.size:
                return Outcome(has=size, why=f"it has {size} leaves, here are {self.size}")
            case Contradicts():
                return Outcome(contradicts=True, why="it has another history")
            case _:
                return Outcome(why="it names one size after another")

    async def _asked(self, witness: Witness, old: int, asks: Asks) -> Told:
        proof = await self._proof(old)
        return await asks.add_checkpoint(witness, old, proof, self.note.encode())

    async def _proof(self, old: int) -> list[bytes]:
        """Return the proof that the log continues its first ``old`` leaves, which holds.

        What is made from files is not trusted: it is verified against the root that the journal
        has. Damaged files must never look like a fork. Raises ``ProofFailedError``, or
        ``UnavailableError`` if they cannot be read now.
        """
        if not 0 < old < self.size:
            return []
        if old not in self._proofs:
            self._proofs[old] = await self._proven(old)
        return self._proofs[old]

    async def _proven(self, old: int) -> list[bytes]:
        def prove(nodes: Nodes) -> tuple[list[bytes], bytes]:
            return consistency_proof(nodes, old, self.size), root_of(nodes, old)

        try:
            tiles = {each: await self._store.tile(each) for each in tiles_read(prove, self.size)}
            proof, old_root = prove(nodes_of(tiles.__getitem__, self.size))
            require_consistent(old, self.size, proof, old_root, self._root)
        except StoreUnreadableError:  # not now: a database that does not answer is not damaged
            raise
        except KeyhouseError as fault:
            raise ProofFailedError("files of the transparency log are damaged or lost") from fault
        return proof


class Asking:
    """Submits ``submission`` to the witnesses of ``policy``. Use it with ``async with``.

    Who has not answered at the end of the context is not waited for. ``sizes``: what each witness
    has, as far as is known; what answers say of that is put into it.
    """

    def __init__(
        self,
        submission: Submission,
        policy: Policy,
        sizes: dict[VerifierKey, int],
        asks: Asks,
    ) -> None:
        self._submission = submission
        self._policy = policy
        self._sizes = sizes
        self._asks = asks
        self._missing: dict[asyncio.Task[Outcome], Witness] = {}
        self.found: dict[Witness, Outcome] = {}

    async def __aenter__(self) -> Self:
        for witness in self._policy.witnesses:
            known = self._sizes.get(witness.key, 0)
            asked = self._submission.to(witness, known, self._asks)
            self._missing[asyncio.create_task(asked)] = witness
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._missing:
            task.cancel()
        if self._missing:
            await asyncio.wait(self._missing)

    @property
    def has_quorum(self) -> bool:
        """Whether those who have cosigned so far are a quorum."""
        signed = {each.key for each, outcome in self.found.items() if outcome.note is not None}
        return self._policy.holds(signed)

    @property
    def cosignatures(self) -> tuple[Signature, ...]:
        """What has been signed so far, without our own signature."""
        notes = (outcome.note for outcome in self.found.values() if outcome.note is not None)
        return tuple(line for note in notes for line in note.signatures[1:])

    async def quorum(self) -> bool:
        """Wait for a quorum, or for all without one; tell whether there is one."""
        while self._missing and not self.has_quorum:
            done, _ = await asyncio.wait(self._missing, return_when=asyncio.FIRST_COMPLETED)
            self._take(done)
        return self.has_quorum

    @property
    def waits(self) -> bool:
        """Whether some have not answered yet."""
        return bool(self._missing)

    async def others(self, patience: float, unless: asyncio.Event) -> None:
        """Wait for one who has not answered yet, for so many seconds at most, or ``unless``."""
        told = asyncio.create_task(unless.wait())
        waited = {*self._missing, told}
        await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        self._take([task for task in self._missing if task.done()])

    def _take(self, done: Iterable["asyncio.Task[Outcome]"]) -> None:
        for task in done:
            witness = self._missing.pop(task)
            outcome = self.found[witness] = task.result()
            if outcome.note is not None:
                self._sizes[witness.key] = self._submission.size
