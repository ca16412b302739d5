"""Activates workloads: checks a request, and returns the parameters of its marble type.

A quote is verified once, in a thread. The package is compared again under the state of the answer,
so an update in between cannot be bypassed. If the marble type has a limit of activations or
renewals, the activation is durable before the answer. Otherwise the record of the activation
follows within a second. Source: ``docs/reference/activations.md``, "Checks".
"""

import hashlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec
from msgspec.structs import asdict, replace

from keyhouse.attestation import Verdict, quote_binding
from keyhouse.attestation.quote.report import Measured
from keyhouse.authority import (
    LIFETIME,
    SigningRequest,
    StoredSecret,
    issue_marble_certificate,
    read_signing_request,
)
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.base.log_texts import ACTIVATED
from keyhouse.coordinator import (
    Activate,
    Activated,
    ActivationParameters,
    ActivationRequest,
    Engine,
    Joining,
    Operation,
    Running,
    StaleError,
    parameters,
    policy_of,
    require_below_limit,
    until_current,
)
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.lineages import LineagesFullError, require_platform
from keyhouse.coordinator.core.policy import Recipe
from keyhouse.manifest import Anchored
from keyhouse.server.net.concurrency import BoundedExecutor, ConcurrencyLimit
from keyhouse.server.services.activation_checks import (
    is_made_for,
    read_uuid,
    require_admitted,
    require_current_root,
    require_identity,
    require_quote,
    require_recipe,
)
from keyhouse.server.services.activation_outcomes import (
    UNKNOWN,
    ActivationCounts,
    RefusalLog,
    Refusals,
)
from keyhouse.server.services.events import ActivationEvent, Events
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.renewal_checks import facts_of, new_lineage

if TYPE_CHECKING:
    from keyhouse.coordinator import ReadGate

WAITING: Final = 4096
"""Largest number of activations that wait for a thread to create slow certificates.

The number equals the largest number of calls. Clients take turns, so a flood excludes nobody.
"""


_FULL_PAUSE: Final = 10 * 1_000_000
"""Microseconds without a further search for room, after the state had the maximum of lineages.

A search walks 100,000 lineages: 0.2 seconds of a processor. So a flood of activations causes 2 %.
"""


class _Workload(msgspec.Struct, frozen=True):
    """A checked request of a workload. Checks against the state are repeated at the decision."""

    request: ActivationRequest
    # DER of the workload's TLS certificate.
    identity: bytes
    # DER of the marble root in the handshake, or None without a connection.
    presented_root: bytes | None
    marble: UUID
    signing: SigningRequest
    # None without a quote, in simulation.
    verdict: Verdict | None


class ActivationService:
    """Decides on activations by the current view of the engine.

    ``simulated``: the platform is a simulation. ``events``, ``counts`` and ``refusals`` receive the
    outcomes. ``gate`` confirms that a view is the newest state; None: the store is not shared.
    ``lifetime`` is the validity of workload certificates. ``pace``: a clock in seconds, which
    limits log entries about refusals.
    """

    def __init__(
        self,
        engine: Engine,
        quote_checks: QuoteChecks,
        *,
        simulated: bool,
        events: Events | None,
        counts: ActivationCounts,
        refusals: Refusals,
        gate: "ReadGate | None" = None,
        lifetime: timedelta = LIFETIME,
        pace: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts: Final = counts
        self._engine = engine
        self._quote_checks = quote_checks
        self._simulated = simulated
        self._events = events
        self._gate = gate
        self._lifetime = lifetime
        self._executor = BoundedExecutor(
            "activate", ConcurrencyLimit(WAITING, "too many workloads are being activated")
        )
        self._refusals = refusals
        self._refusal_log = RefusalLog(events, pace)
        self._full_until = 0  # microseconds since 1970

    async def activate(
        self,
        request: ActivationRequest,
        identity: bytes | None,
        presented_root: bytes | None = None,
    ) -> ActivationParameters:
        """Return the parameters of the workload, after its activation is recorded.

        The record is durable if the type has a limit or renewals; otherwise it follows within a
        second. ``identity`` is the DER of the workload's leaf certificate. ``presented_root`` is
        the DER of the marble root in the handshake.

        Raises:
            WrongPhaseError: no manifest is in force.
            UnauthenticatedError: there is no client certificate.
            InvalidError: UUID, CSR or size of the quote.
            ForbiddenError: unknown marble type, no quote, not admitted, or the limit is reached.
            QuoteRefusedError: the quote does not verify.
            ConflictError: a user still has to upload a secret, which the error names.
            OutdatedConnectionError: the marble root is not ``presented_root``.
            UnavailableError: the coordinator cannot do this now; try again later.
            BrokenError: only a restart reveals whether the activation counts.
        """
        recipe = self._recipe(request.marble_type)
        label = UNKNOWN if recipe is None else recipe.marble_type
        self.counts.attempted(label)
        workload: _Workload | None = None
        try:
            workload = await self._read(request, identity, presented_root)
            given, activated = await self._join(workload)
        except KeyhouseError as problem:
            self._refused(request, recipe, workload, problem)
            raise
        self._succeeded(label, request, activated)
        return given

    def close(self) -> None:
        """End the thread that issues certificates."""
        self._executor.close()

    async def _read(
        self, request: ActivationRequest, identity: bytes | None, presented_root: bytes | None
    ) -> _Workload:
        """Check the request in the order of the interface: cheap checks before the quote."""
        # The newest manifest decides about a refusal.
        await self._confirmed()
        state = self._running()
        require_current_root(state, presented_root)
        self._engine.lease.require()
        presented = require_identity(identity)
        recipe = require_recipe(state, request.marble_type)
        if recipe.marble.renewal is not None and self._engine.current.now() < self._full_until:
            raise LineagesFullError
        marble = read_uuid(request.uuid)
        quoted = require_quote(request.quote, simulated=self._simulated)
        signing = read_signing_request(request.csr, state.keys)
        verdict = await self._quote_checks.verify(request.quote, presented) if quoted else None
        return _Workload(request, presented, presented_root, marble, signing, verdict)

    async def _join(self, workload: _Workload) -> tuple[ActivationParameters, Activated]:
        """Activate: decide, create and record under one state. Repeat if the state has changed."""

        async def change() -> tuple[ActivationParameters, Activated]:
            state = self._running()
            require_current_root(state, workload.presented_root)
            recipe = require_recipe(state, workload.request.marble_type)
            require_admitted(state, recipe, workload.verdict, quote_binding(workload.identity))
            require_below_limit(state, recipe.marble_type)
            activated = self._activated(recipe, workload)
            if state.revoked_platforms:
                require_platform(state, activated.platform)
            self._engine.lease.require()
            leaf, given = await self._made(state, recipe, workload, activated)
            # The lease may have expired while this activation waited for its turn.
            self._engine.lease.charge()
            if (begun := activated.lineage) is not None:
                key = hashlib.sha256(leaf.public.reveal()).digest()
                activated = replace(activated, lineage=replace(begun, key=key))
            await self._recorded(state, activated)
            return given, activated

        too_fast = "the state changes faster than a workload can be activated"
        return await until_current(change, too_fast=too_fast)

    async def _made(
        self, state: Running, recipe: Recipe, workload: _Workload, activated: Activated
    ) -> tuple[StoredSecret, ActivationParameters]:
        now, lifetime, lineage = moment(activated.time), self._lifetime, None
        if (begun := activated.lineage) is not None:
            lineage = facts_of(begun.id, workload.verdict, activated.time)
            lifetime = moment(begun.end) - now

        def make() -> tuple[StoredSecret, ActivationParameters]:
            leaf = issue_marble_certificate(
                state.keys,
                workload.signing,
                marble=workload.marble,
                marble_type=recipe.marble_type,
                now=now,
                lifetime=lifetime,
                lineage=lineage,
            )
            return leaf, parameters(state, recipe, Joining(workload.marble, leaf, now))

        if not recipe.is_costly:
            return make()
        return await self._executor.run(make, workload.identity)

    async def _recorded(self, state: Running, activated: Activated) -> None:
        """Record the activation ``activated``.

        With a limit of activations or a lineage, wait until the record is durable. Otherwise add
        the record to the queue of the audit trail.

        ``state``: the state of the decision. Raises ``StaleError`` if an update has replaced its
        manifest or its keys.
        """
        manifest, intermediate = state.manifest, state.keys.intermediate_cert
        if activated.counted or activated.lineage is not None:
            try:
                await self._engine.submit(Activate(manifest, intermediate, activated))
            except LineagesFullError:
                self._full_until = activated.time + _FULL_PAUSE
                raise
            if activated.counted:
                await self._engine.lease.anchor(Anchored.LIMITED_ACTIVATIONS)
            return
        # Otherwise an update of another replica could come before this record.
        await self._confirmed()
        current = self._running()
        if (current.manifest, current.keys.intermediate_cert) != (manifest, intermediate):
            raise StaleError
        self._engine.queue.record(activated)

    async def _confirmed(self) -> None:
        """Wait until the view has all earlier changes by other replicas.

        Raises ``UnavailableError``.
        """
        if self._gate is not None:
            await self._gate.passed()

    def _activated(self, recipe: Recipe, workload: _Workload) -> Activated:
        verdict = workload.verdict
        measured = Measured() if verdict is None else verdict.measured
        now, renewal = self._engine.current.now(), recipe.marble.renewal
        return Activated(
            time=now,
            marble_type=recipe.marble_type,
            uuid=str(workload.marble),
            names=workload.signing.names,
            counted=recipe.marble.max_activations > 0,
            quoted=verdict is not None,
            lineage=None if renewal is None else new_lineage(renewal, now),
            **asdict(measured),
        )

    def _running(self) -> Running:
        return self._engine.view.running_for(Operation.ACTIVATE)

    def _recipe(self, marble_type: str) -> Recipe | None:
        state = self._engine.view.state
        if not isinstance(state, Running):
            return None
        return policy_of(state.manifest).recipe(marble_type)

    def _succeeded(self, label: str, request: ActivationRequest, activated: Activated) -> None:
        self.counts.activated(label, quoted=activated.quoted)
        log.info(
            ACTIVATED,
            marble_type=activated.marble_type,
            uuid=activated.uuid,
            quoted=activated.quoted,
        )
        if self._events is not None:
            event = ActivationEvent(activated.marble_type, activated.uuid, request.quote or None)
            self._events.activated(event, at=activated.time * 1000)

    def _refused(
        self,
        request: ActivationRequest,
        recipe: Recipe | None,
        workload: _Workload | None,
        problem: KeyhouseError,
    ) -> None:
        now = self._engine.current.now()
        self.counts.refused(problem)
        self._refusal_log.refused(now, request, problem)
        self._refusals.add(now, request, recipe, _proven(workload), problem)


def _proven(workload: _Workload | None) -> Verdict | None:
    """Return the verdict on the quote if the quote binds this workload; otherwise None."""
    if workload is None or workload.verdict is None:
        return None
    return workload.verdict if is_made_for(workload.verdict, workload.identity) else None
