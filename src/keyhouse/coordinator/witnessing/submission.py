"""Submits a checkpoint to a witness, or to all witnesses of a policy at once.

A submission contains the checkpoint, the size that the witness knows, and a consistency proof
between both sizes. A witness cosigns only if the proof holds, and then remembers the new size. So
an honest witness never cosigns two histories of a log. Source: C2SP ``tlog-witness``.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, Protocol, Self

import msgspec

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.coordinator.core.state import PublicLog
from keyhouse.journal import LogStore, StoreUnreadableError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, cosigned
from keyhouse.transparency.note import NoteSignature, SignedNote
from keyhouse.transparency.policy import CosignaturePolicy, Witness
from keyhouse.transparency.tiles import nodes_of, tiles_read
from keyhouse.transparency.tree import Nodes, consistency_proof, require_consistent, root_of
from keyhouse.witnesses.answers import Contradicts, Cosigned, OtherSize, WitnessAnswer

MOST_RETRIES: Final = 4
"""Maximum of repeated submissions to a witness that knows another size.

Replicas submit at the same time, so the size of a witness can change between two requests.
"""


class WitnessSender(Protocol):
    """The part of a client of witnesses that a submission uses."""

    def add_checkpoint(
        self, witness: Witness, old: int, proof: Sequence[bytes], note: bytes
    ) -> Awaitable[WitnessAnswer]:
        """Return the answer of ``witness`` to the checkpoint in ``note``.

        ``old``: the number of leaves that the witness knows. ``proof`` shows that the log continues
        these leaves. Raises ``UnavailableError``.
        """
        ...


class ProofFailedError(KeyhouseError):
    """The files of our own log are damaged or lost, so they give no consistency proof."""

    code = "log-damaged"


class WitnessOutcome(msgspec.Struct, frozen=True):
    """The result of a submission to a witness.

    ``why``: the reason for a missing cosignature. If only ``why`` is set, a repeated submission may
    succeed. ``contradicts``: the witness knows a different history of this log. ``damaged``: our
    own files give no consistency proof.
    """

    note: SignedNote | None = None  # with the verified cosignature
    has: int = 0  # size of a larger checkpoint that the witness claims
    contradicts: bool = False
    damaged: bool = False
    why: str = ""


class Submission:
    """Submits the newest checkpoint of ``log``, with proofs from the files in ``store``.

    ``note`` has only our own signature, because witnesses limit the length of notes.
    """

    def __init__(self, log: PublicLog, note: bytes, store: LogStore) -> None:
        self.size = log.frontier.size
        self.note = SignedNote.read(note)
        self._root = log.frontier.root
        self._store = store
        # Cached, because most witnesses know the same size.
        self._proofs: dict[int, list[bytes]] = {}

    async def to(self, witness: Witness, old: int, client: WitnessSender) -> WitnessOutcome:
        """Submit the checkpoint to ``witness``, which probably knows ``old`` leaves.

        Return the outcome. If the witness knows another number of leaves, submit again for that
        number.
        """
        old = min(old, self.size)
        try:
            answer = await self._submit(witness, old, client)
            for _ in range(MOST_RETRIES):
                if not isinstance(answer, OtherSize) or not old != answer.size <= self.size:
                    break
                old = answer.size
                answer = await self._submit(witness, old, client)
            if answer == OtherSize(self.size) and old == self.size:
                answer = Contradicts()  # the witness knows another root for this size
            return self._outcome(answer, witness.key)
        except ProofFailedError as failed:
            return WitnessOutcome(damaged=True, why=failed.message)
        except UnavailableError as error:
            return WitnessOutcome(why=error.message)

    def _outcome(self, answer: WitnessAnswer, key: VerifierKey) -> WitnessOutcome:
        match answer:
            case Cosigned(lines):
                try:
                    return WitnessOutcome(cosigned(self.note, lines, key))
                except LogInvalidError:
                    return WitnessOutcome(why="its cosignature is not valid")
            case OtherSize(size) if size > self.size:
                return WitnessOutcome(
                    has=size, why=f"it knows {size} leaves; this log has {self.size}"
                )
            case Contradicts():
                return WitnessOutcome(contradicts=True, why="it knows another history of this log")
            case _:
                return WitnessOutcome(why="it answers with a new size each time")

    async def _submit(self, witness: Witness, old: int, client: WitnessSender) -> WitnessAnswer:
        proof = await self._proof(old)
        return await client.add_checkpoint(witness, old, proof, self.note.encode())

    async def _proof(self, old: int) -> list[bytes]:
        """Return a verified proof that the log continues its first ``old`` leaves.

        The files are untrusted, so the proof is verified against the root in the journal. A damaged
        file must never look like a fork. Raises ``ProofFailedError``, or ``UnavailableError`` if
        the files cannot be read now.
        """
        if not 0 < old < self.size:
            return []
        if old not in self._proofs:
            self._proofs[old] = await self._make_proof(old)
        return self._proofs[old]

    async def _make_proof(self, old: int) -> list[bytes]:
        def prove(nodes: Nodes) -> tuple[list[bytes], bytes]:
            return consistency_proof(nodes, old, self.size), root_of(nodes, old)

        try:
            tiles = {each: await self._store.tile(each) for each in tiles_read(prove, self.size)}
            proof, old_root = prove(nodes_of(tiles.__getitem__, self.size))
            require_consistent(old, self.size, proof, old_root, self._root)
        except StoreUnreadableError:  # a database without an answer is not damaged
            raise
        except KeyhouseError as fault:
            raise ProofFailedError(
                "files of the transparency log are damaged or lost",
                hint="restore the files with keyhouse log restore",
            ) from fault
        return proof


class PolicySubmission:
    """Submits ``submission`` to all witnesses of ``policy``. Use with ``async with``.

    The end of the context cancels submissions without an answer. ``sizes``: the number of leaves
    that each witness knows. Answers update ``sizes``.
    """

    def __init__(
        self,
        submission: Submission,
        policy: CosignaturePolicy,
        sizes: dict[VerifierKey, int],
        client: WitnessSender,
    ) -> None:
        self._submission = submission
        self._policy = policy
        self._sizes = sizes
        self._asks = client
        self._unanswered: dict[asyncio.Task[WitnessOutcome], Witness] = {}
        self.outcomes: dict[Witness, WitnessOutcome] = {}

    async def __aenter__(self) -> Self:
        for witness in self._policy.witnesses:
            known = self._sizes.get(witness.key, 0)
            submitted = self._submission.to(witness, known, self._asks)
            self._unanswered[asyncio.create_task(submitted)] = witness
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._unanswered:
            task.cancel()
        if self._unanswered:
            await asyncio.wait(self._unanswered)

    @property
    def has_quorum(self) -> bool:
        """Whether the received cosignatures are a quorum."""
        signed = {each.key for each, outcome in self.outcomes.items() if outcome.note is not None}
        return self._policy.holds(signed)

    @property
    def cosignatures(self) -> tuple[NoteSignature, ...]:
        """The received cosignatures, without the log's own signature."""
        notes = (outcome.note for outcome in self.outcomes.values() if outcome.note is not None)
        return tuple(line for note in notes for line in note.signatures[1:])

    async def quorum(self) -> bool:
        """Wait for a quorum or for the last answer. Return whether there is a quorum."""
        while self._unanswered and not self.has_quorum:
            done, _ = await asyncio.wait(self._unanswered, return_when=asyncio.FIRST_COMPLETED)
            self._collect(done)
        return self.has_quorum

    @property
    def waits(self) -> bool:
        """True if a witness has not answered yet."""
        return bool(self._unanswered)

    async def wait_for_answer(self, patience: float, unless: asyncio.Event) -> None:
        """Wait until another witness answers, ``unless`` is set, or ``patience`` seconds pass."""
        stop = asyncio.create_task(unless.wait())
        waited = {*self._unanswered, stop}
        await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        self._collect([task for task in self._unanswered if task.done()])

    def _collect(self, done: Iterable["asyncio.Task[WitnessOutcome]"]) -> None:
        for task in done:
            witness = self._unanswered.pop(task)
            outcome = self.outcomes[witness] = task.result()
            if outcome.note is not None:
                self._sizes[witness.key] = self._submission.size
