"""The task that submits the log to witnesses, appends anchors, and reports to the lease.

The module ``coordinator.lease`` explains the purpose. A round appends an anchor if the lease needs
one, submits the newest checkpoint to the witnesses of each policy, and reports a quorum or a
refusal. Former witnesses come first: their quorum agrees to their replacement.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.coordinator.core.commands import AgreeWitnesses, MakeAnchor
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.coordinator.engine.log_signing import signed_checkpoint
from keyhouse.coordinator.lease import DAMAGED, FORKED, NO_QUORUM, ROLLED_BACK, STARTING
from keyhouse.coordinator.witnessing.submission import (
    PolicySubmission,
    Submission,
    WitnessOutcome,
    WitnessSender,
)
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import NoteSignature, SignedNote
from keyhouse.transparency.policy import CosignaturePolicy, Witness
from keyhouse.transparency.tree import LARGEST

if TYPE_CHECKING:
    from keyhouse.coordinator.engine.read_gate import ReadGate

REFRESH_SECONDS: Final = 600.0
"""Seconds until a checkpoint is cosigned again, because clients check the age."""

BATCH_SECONDS: Final = 1.0
"""Batch window in seconds for leaves without a waiting request."""

EXTRA_SECONDS: Final = 1.0
"""Seconds for the remaining witnesses to answer after a quorum.

A client may require more cosignatures than the quorum.
"""

HURRIED_EXTRA_SECONDS: Final = 0.05
"""Seconds for the remaining witnesses if a request waits for the next checkpoint."""

FINAL_SECONDS: Final = 2.0
"""Seconds for the last submission before the coordinator stops."""

_FIRST_PAUSE: Final = 0.2  # seconds, doubled up to the longest
_LONGEST_PAUSE: Final = 10.0  # seconds


def _read_gate(engine: Engine) -> "ReadGate":
    from keyhouse.coordinator.engine.read_gate import ReadGate  # only replicas need a read gate

    return ReadGate(engine)


class Witnessing:
    """Submits the log to the witnesses of the manifest in force.

    ``connect`` returns the client for requests to the witnesses.
    """

    def __init__(
        self, engine: Engine, connect: Callable[[], AbstractAsyncContextManager[WitnessSender]]
    ) -> None:
        self._engine: Final = engine
        self._lease: Final = engine.lease
        self._connect: Final = connect
        self._gate: Final = _read_gate(engine) if engine.process.shares_store else None
        self._fresh_until = 0.0
        self._gather_until = 0.0
        self._sizes: dict[VerifierKey, int] = {}
        self._whys: dict[str, str] = {}
        self._alarm = ""  # the last logged reason that makes a quorum impossible

    async def run(self) -> None:
        """Work until cancelled. Without witnesses, wait for a manifest with witnesses."""
        while not self._lease.policies:
            await self._wait_for_work(None)
        async with self._connect() as client:
            pause = _FIRST_PAUSE
            while True:
                if await self._round(client):
                    pause = _FIRST_PAUSE
                    await self._wait_for_work(self._seconds_to_rest())
                else:  # no event shortens this pause, to protect the witnesses
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)

    async def finish(self) -> None:
        """Submit leaves without a quorum once more. Call this after ``run``.

        The call takes at most ``FINAL_SECONDS``.
        """
        lease = self._lease
        if not lease.policies or lease.held or not lease.is_behind:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(FINAL_SECONDS), self._connect() as client:
                await self._submit(client)

    def _seconds_to_rest(self) -> float | None:
        """Return the longest pause before the next submission, in seconds.

        None: no limit. A change of the lease ends the pause earlier.
        """
        lease = self._lease
        if not lease.policies or lease.is_condemned:
            return None
        if lease.is_due or (lease.is_behind and lease.is_urgent):
            return 0.0
        if lease.is_behind:
            return max(self._gather_until - _now(), 0.0)
        return max(min(lease.seconds_left, self._fresh_until - _now()), 1.0)

    async def _wait_for_work(self, patience: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._lease.work.wait()
        self._lease.work.clear()

    async def _round(self, client: WitnessSender) -> bool:
        """Append an anchor and submit the log, if necessary. Return False after a failure."""
        lease = self._lease
        if not lease.policies or lease.is_condemned:
            return True
        if lease.is_due and not await self._append_anchor():
            return False
        if not lease.is_behind and _now() < self._fresh_until:
            return True
        if not lease.is_urgent and _now() < self._gather_until:
            return True
        return await self._submit(client)

    async def _submit(self, client: WitnessSender) -> bool:
        """Submit the whole log. Return whether all quorums have cosigned."""
        self._gather_until = _now() + BATCH_SECONDS
        state = self._engine.view.state
        if not isinstance(state, Running) or state.public_log is None:
            return True
        note = signed_checkpoint(state.public_log)
        submission = Submission(state.public_log, note, self._engine.writer.public_log)
        return await self._submit_to_policies(submission, self._lease.policies, client)

    async def _append_anchor(self) -> bool:
        """Append an anchor to the log. Return whether this succeeded."""
        lease = self._lease
        made, waiters = lease.mark(), lease.take_waiters()
        try:
            view = await self._engine.submit(MakeAnchor(os.urandom(16)))
        except KeyhouseError as error:
            log.warning("the transparency log has no new anchor", reason=str(error))
            lease.add_waiters(waiters)
            return False
        public_log = view.running.public_log
        lease.on_anchor(public_log.frontier.size if public_log else 0, made, waiters)
        return True

    async def _submit_to_policies(
        self, submission: Submission, policies: tuple[CosignaturePolicy, ...], client: WitnessSender
    ) -> bool:
        """Submit to the witnesses of each of ``policies`` in turn, until a policy has no quorum."""
        signatures = submission.note.signatures
        for policy in policies:
            async with PolicySubmission(submission, policy, self._sizes, client) as round_:
                has_quorum = await round_.quorum()
                if self._lease.policies is not policies:
                    return True  # an update has replaced the witnesses in the meantime
                if has_quorum and policy is policies[-1]:
                    # Requests are answered now, although a witness may be slow or unreachable.
                    self._report_quorum(submission, (*signatures, *round_.cosignatures))
                    await self._agree(self._lease.former)
                    await self._wait_for_rest(round_)
                signatures = (*signatures, *round_.cosignatures)
            outcomes = await self._without_explained_claims(round_.outcomes)
            self._log_refusals(outcomes)
            if not has_quorum:
                self._report_refusal(policy, outcomes)
                return False
        if self._lease.policies is policies:
            self._report_quorum(submission, signatures)
        return True

    async def _wait_for_rest(self, round_: PolicySubmission) -> None:
        """Wait for the remaining witnesses, for longer if no request needs the next checkpoint."""
        lease, began = self._lease, _now()
        while round_.waits:
            patience = HURRIED_EXTRA_SECONDS if lease.is_urgent else EXTRA_SECONDS
            if (left := began + patience - _now()) <= 0:
                return
            lease.work.clear()  # the next round reads the lease in any case
            await round_.wait_for_answer(left, lease.work)

    def _report_quorum(self, submission: Submission, signatures: Iterable[NoteSignature]) -> None:
        lines = tuple(dict.fromkeys(signatures))  # a witness may be in two policies
        held = self._lease.held
        self._lease.on_quorum(submission.size, SignedNote(submission.note.text, lines).encode())
        self._fresh_until = _now() + REFRESH_SECONDS
        self._alarm = ""
        self._engine.current.publish_again()
        if held and not self._lease.held:
            log.info("a quorum of the witnesses has cosigned", size=submission.size)

    async def _agree(self, former: tuple[str, ...]) -> None:
        """Record in the journal that the former witnesses have cosigned their replacement.

        ``former``: their policies. If empty, do nothing.
        """
        if former:
            with suppress(KeyhouseError):  # the next round tries again
                await self._engine.submit(AgreeWitnesses(former))

    async def _without_explained_claims(
        self, outcomes: dict[Witness, WitnessOutcome]
    ) -> dict[Witness, WitnessOutcome]:
        """Return ``outcomes``; drop each claim of a larger log if replicas have added the leaves.

        A replica stores its leaves before the replica submits them to a witness. So a view after
        the answers contains these leaves. A claim up to the size of this view is dropped. If the
        store cannot be read now, all claims of a larger log are dropped.
        """
        if self._gate is None or not any(outcome.has for outcome in outcomes.values()):
            return outcomes
        size = LARGEST
        with suppress(KeyhouseError):
            await self._gate.passed()
            log_now = self._engine.view.running.public_log
            size = log_now.frontier.size if log_now is not None else 0
        return {
            witness: WitnessOutcome() if 0 < outcome.has <= size else outcome
            for witness, outcome in outcomes.items()
        }

    def _report_refusal(
        self, policy: CosignaturePolicy, outcomes: dict[Witness, WitnessOutcome]
    ) -> None:
        """Report to the lease that there is no quorum, and whether a quorum is still possible.

        A claim of a single witness decides nothing, because a refusal is not signed. The claims
        decide if the remaining witnesses are too few for a quorum. With a shared store the process
        continues to submit, because the store may deliver the newest state later.
        """
        ahead = {each.key for each, outcome in outcomes.items() if outcome.has}
        forked = {each.key for each, outcome in outcomes.items() if outcome.contradicts}
        left = {each.key for each in policy.witnesses} - ahead - forked
        lost = not policy.holds(left)
        reason = FORKED if forked else ROLLED_BACK
        if not lost:
            damaged = any(outcome.damaged for outcome in outcomes.values())
            reason = DAMAGED if damaged else NO_QUORUM if self._lease.witnessed else STARTING
        if lost and reason != self._alarm:
            log.error("witnesses refuse this state", reason=reason)
        self._alarm = reason if lost else ""
        self._lease.on_refusal(reason, lasting=lost and (bool(forked) or self._gate is None))
        self._engine.current.publish_again()

    def _log_refusals(self, outcomes: dict[Witness, WitnessOutcome]) -> None:
        """Log the witnesses in ``outcomes`` that do not cosign, once for each reason."""
        for witness, outcome in outcomes.items():
            if outcome.why and self._whys.get(witness.name) != outcome.why:
                log.warning("a witness does not cosign", witness=witness.name, reason=outcome.why)
            self._whys[witness.name] = outcome.why


def _now() -> float:
    return asyncio.get_running_loop().time()
