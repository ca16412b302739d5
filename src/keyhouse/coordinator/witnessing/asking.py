"""One checkpoint, submitted to all witnesses of one policy at once."""

import asyncio
from collections.abc import Iterable
from typing import Self

from keyhouse.coordinator.witnessing.submission import Asks, Outcome, Submission
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import Signature
from keyhouse.transparency.policy import Policy, Witness


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
        """Wait for a quorum, or for all if there is none; tell whether there is one."""
        while self._missing and not self.has_quorum:
            done, _ = await asyncio.wait(self._missing, return_when=asyncio.FIRST_COMPLETED)
            self._take(done)
        return self.has_quorum

    async def others(self, patience: float) -> None:
        """Wait for those who have not answered yet, for so many seconds at most."""
        if self._missing:
            done, _ = await asyncio.wait(self._missing, timeout=patience)
            self._take(done)

    def _take(self, done: Iterable["asyncio.Task[Outcome]"]) -> None:
        for task in done:
            witness = self._missing.pop(task)
            outcome = self.found[witness] = task.result()
            if outcome.note is not None:
                self._sizes[witness.key] = self._submission.size
