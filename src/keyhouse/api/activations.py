"""Lets workloads join: checks a request, and answers what its marble type is started with."""

from keyhouse.api.activation_counts import ActivationCounts
from keyhouse.api.events import Events
from keyhouse.api.quote_checks import QuoteChecks
from keyhouse.coordinator import Engine
from keyhouse.coordinator.activation import ActivationRequest, Parameters
from keyhouse.coordinator.phases import Operation, require
from keyhouse.wire.errors import NotYet

__all__ = ["Activations"]


class Activations:
    """Judges activations against the engine's current view."""

    def __init__(
        self,
        engine: Engine,
        quote_checks: QuoteChecks,
        *,
        simulated: bool,
        events: Events | None,
        counts: ActivationCounts,
    ) -> None:
        self._engine = engine
        self._quote_checks = quote_checks
        self._simulated = simulated
        self._events = events
        self._counts = counts

    async def activate(self, request: ActivationRequest, identity: bytes | None) -> Parameters:
        """Return what the workload is started with, once its activation is counted and audited.

        ``identity`` is the DER of the leaf that the workload presented.

        Raises:
            WrongPhase: no manifest is enforced.
            Unauthenticated: no client certificate.
            Invalid: UUID or CSR. Nothing else was looked at.
            Forbidden: unknown marble type, no quote, another package, or the limit is reached.
            QuoteRefused: the quote does not verify.
            Conflicting: a secret that users have to upload is missing; it is named.
            Unavailable: not now.
            Broken: whether the activation counts is not known until a restart.
        """
        del request, identity
        require(Operation.ACTIVATE, self._engine.view.phase)
        raise NotYet("activation is not implemented")
