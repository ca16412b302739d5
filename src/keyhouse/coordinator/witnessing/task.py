"""Keeps witnesses with the log: submits what is new, makes anchors, and tells the lease."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.coordinator.core.commands import AgreeWitnesses, MakeAnchor
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.coordinator.engine.log_signing import signed_checkpoint
from keyhouse.coordinator.engine.read_gate import ReadGate
from keyhouse.coordinator.lease import DAMAGED, FORKED, NO_QUORUM, ROLLED_BACK, STARTING
from keyhouse.coordinator.witnessing.submission import Asking, Asks, Outcome, Submission
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import Signature, SignedNote
from keyhouse.transparency.policy import Policy, Witness
from keyhouse.transparency.tree import LARGEST

REFRESHED_AFTER: Final = 600.0
"""Seconds after which a checkpoint is cosigned again, for clients that look at its age."""

GATHERED_FOR: Final = 1.0
"""Seconds that leaves wait for others, where nobody waits for them to be cosigned."""

STRAGGLERS: Final = 1.0
"""Seconds that other witnesses have to answer once a quorum has: clients may want more of them."""

HURRIED: Final = 0.05
"""Seconds that they have if someone waits for the next checkpoint."""

LAST_WITHIN: Final = 2.0
"""Seconds that the last leaves have to be cosigned before the coordinator stops."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0


class Witnessing:
    """Asks the witnesses that the manifest in force names. ``connect`` returns what asks them."""

    def __init__(
        self, engine: Engine, connect: Callable[[], AbstractAsyncContextManager[Asks]]
    ) -> None:
        self._engine: Final = engine
        self._lease: Final = engine.lease
        self._connect: Final = connect
        self._gate: Final = ReadGate(engine) if engine.shares_store else None
        self._fresh_until = 0.0
        self._gather_until = 0.0
        self._sizes: dict[VerifierKey, int] = {}
        self._whys: dict[str, str] = {}
        self._alarm = ""  # what the log was told last: that there can be no quorum, and why

    async def run(self) -> None:
        """Work until cancelled. Without witnesses it waits for a manifest that names some."""
        while not self._lease.policies:
            await self._woken(None)
        async with self._connect() as asks:
            pause = _FIRST_PAUSE
            while True:
                if await self._round(asks):
                    pause = _FIRST_PAUSE
                    await self._woken(self._rest())
                else:  # whatever happens meanwhile: witnesses are not asked again and again
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)

    async def finish(self) -> None:
        """Submit what no quorum has cosigned yet, once and not for long. After ``run``."""
        lease = self._lease
        if not lease.policies or lease.held or not lease.is_behind:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WITHIN), self._connect() as asks:
                await self._submit(asks)

    def _rest(self) -> float | None:
        """Return the seconds until there is something to do, if nothing happens; None: never."""
        lease = self._lease
        if not lease.policies or lease.is_condemned:
            return None
        if lease.is_due or (lease.is_behind and lease.is_urgent):
            return 0.0
        if lease.is_behind:
            return max(self._gather_until - _now(), 0.0)
        return max(min(lease.seconds_left, self._fresh_until - _now()), 1.0)

    async def _woken(self, patience: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._lease.work.wait()
        self._lease.work.clear()

    async def _round(self, asks: Asks) -> bool:
        """Submit what is new, if anything is; return whether nothing is left to try again."""
        lease = self._lease
        if not lease.policies or lease.is_condemned:
            return True
        if lease.is_due and not await self._anchored():
            return False
        if not lease.is_behind and _now() < self._fresh_until:
            return True
        if not lease.is_urgent and _now() < self._gather_until:
            return True
        return await self._submit(asks)

    async def _submit(self, asks: Asks) -> bool:
        """Submit the whole log; return whether all quorums have cosigned it."""
        self._gather_until = _now() + GATHERED_FOR
        state = self._engine.view.state
        if not isinstance(state, Running) or state.public_log is None:
            return True
        note = signed_checkpoint(state.public_log)
        submission = Submission(state.public_log, note, self._engine.public_log)
        return await self._submitted(submission, self._lease.policies, asks)

    async def _anchored(self) -> bool:
        """Put an anchor into the log; return whether it is there."""
        lease = self._lease
        made, demands = lease.mark(), lease.demands()
        try:
            view = await self._engine.submit(MakeAnchor(os.urandom(16)))
        except KeyhouseError as error:
            log.warning("the transparency log has no new anchor", reason=str(error))
            lease.demand(demands)
            return False
        public_log = view.running.public_log
        lease.anchored(public_log.frontier.size if public_log else 0, made, demands)
        return True

    async def _submitted(
        self, submission: Submission, policies: tuple[Policy, ...], asks: Asks
    ) -> bool:
        """Submit to the witnesses of each policy in turn, until one has no quorum."""
        signatures = submission.note.signatures
        for policy in policies:
            async with Asking(submission, policy, self._sizes, asks) as asking:
                has_quorum = await asking.quorum()
                if self._lease.policies is not policies:
                    return True  # an update has named others meanwhile
                if has_quorum and policy is policies[-1]:
                    # Who waits is answered now, though one witness may be slow or away.
                    self._granted(submission, (*signatures, *asking.cosignatures))
                    await self._agree(self._lease.former)
                    await self._heard(asking)
                signatures = (*signatures, *asking.cosignatures)
            found = await self._explained(asking.found)
            self._tell(found)
            if not has_quorum:
                self._refused(policy, found)
                return False
        if self._lease.policies is policies:
            self._granted(submission, signatures)
        return True

    async def _heard(self, asking: Asking) -> None:
        """Let the other witnesses answer, for longer if nobody waits for the next checkpoint."""
        lease, began = self._lease, _now()
        while asking.waits:
            patience = HURRIED if lease.is_urgent else STRAGGLERS
            if (left := began + patience - _now()) <= 0:
                return
            lease.work.clear()  # the next round looks at the lease in any case
            await asking.others(left, lease.work)

    def _granted(self, submission: Submission, signatures: Iterable[Signature]) -> None:
        lines = tuple(dict.fromkeys(signatures))  # a witness may be in two policies
        held = self._lease.held
        self._lease.granted(submission.size, SignedNote(submission.note.text, lines).encode())
        self._fresh_until = _now() + REFRESHED_AFTER
        self._alarm = ""
        self._engine.show_again()
        if held and not self._lease.held:
            log.info("a quorum of the witnesses has cosigned", size=submission.size)

    async def _agree(self, former: tuple[str, ...]) -> None:
        """Have the journal say that the witnesses before have cosigned what replaces them."""
        if former:
            with suppress(KeyhouseError):  # then they are asked again
                await self._engine.submit(AgreeWitnesses(former))

    async def _explained(self, found: dict[Witness, Outcome]) -> dict[Witness, Outcome]:
        """Return ``found`` without claims to have more that other replicas explain.

        What they submit is in the store before, so a view of the store that was read after the
        answers has it. If the store cannot be read now, no such claim says anything.
        """
        if self._gate is None or not any(outcome.has for outcome in found.values()):
            return found
        size = LARGEST
        with suppress(KeyhouseError):
            await self._gate.passed()
            log_now = self._engine.view.running.public_log
            size = log_now.frontier.size if log_now is not None else 0
        return {
            witness: Outcome() if 0 < outcome.has <= size else outcome
            for witness, outcome in found.items()
        }

    def _refused(self, policy: Policy, found: dict[Witness, Outcome]) -> None:
        """Tell the lease that there is no quorum, and whether there can be one.

        What a single witness claims decides nothing: nobody signs a refusal. It does if without
        those who refuse no quorum is left. A store that others share may show the newest state
        again, so then it is asked for on.
        """
        ahead = {each.key for each, outcome in found.items() if outcome.has}
        forked = {each.key for each, outcome in found.items() if outcome.contradicts}
        left = {each.key for each in policy.witnesses} - ahead - forked
        lost = not policy.holds(left)
        trouble = FORKED if forked else ROLLED_BACK
        if not lost:
            damaged = any(outcome.damaged for outcome in found.values())
            trouble = DAMAGED if damaged else NO_QUORUM if self._lease.witnessed else STARTING
        if lost and trouble != self._alarm:
            log.error("witnesses refuse this state", reason=trouble)
        self._alarm = trouble if lost else ""
        self._lease.refused(trouble, lasting=lost and (bool(forked) or self._gate is None))
        self._engine.show_again()

    def _tell(self, found: dict[Witness, Outcome]) -> None:
        """Log which witnesses do not cosign, once for each reason."""
        for witness, outcome in found.items():
            if outcome.why and self._whys.get(witness.name) != outcome.why:
                log.warning("a witness does not cosign", witness=witness.name, reason=outcome.why)
            self._whys[witness.name] = outcome.why


def _now() -> float:
    return asyncio.get_running_loop().time()
