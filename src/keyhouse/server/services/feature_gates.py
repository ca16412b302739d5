"""What a manifest has to enable: monotonic counters of workloads, signatures over quotes.

A signature over a quote is for clients that trust the root key and no vendor of CPUs. Source: wire
reference, "Authentication and permissions", "Monotonic counters".
"""

import msgspec

from keyhouse.attestation import QuoteProblem, QuoteRefusedError, TcbStatus
from keyhouse.authority import MarbleIdentity, read_marble_certificate, sign_quote_text
from keyhouse.base.errors import ForbiddenError, UnauthenticatedError
from keyhouse.coordinator import (
    Engine,
    Operation,
    Running,
    SetCounter,
    View,
    counter_of,
    policy_of,
    require,
)
from keyhouse.coordinator.core.timestamps import moment
from keyhouse.manifest import Anchored, FeatureGate
from keyhouse.server.services.quote_checks import QuoteChecks


def require_enabled(view: View, operation: Operation, gate: FeatureGate | None) -> None:
    """Refuse what the phase does not allow, or what the manifest in force has to enable first.

    Raises:
        WrongPhaseError: not in this phase. Forbidden: the manifest does not have ``gate``.
    """
    require(operation, view.phase)
    state = view.state
    if gate is None or not isinstance(state, Running):
        return
    if not policy_of(state.manifest).has_gate(gate):
        raise ForbiddenError(
            f"{operation} is not enabled",
            hint=f"add {gate} to Config.FeatureGates of the manifest",
        )


def identify_marble(state: Running, identity: bytes | None, *, now: int) -> MarbleIdentity:
    """Return which workload has the certificate ``identity`` (DER of the leaf).

    Its certificate alone decides, against ``state``; ``now`` is security time.

    Raises ``UnauthenticatedError``: none, not issued by the present marble root (also one from
    before an update), not in its time, or of a type that the manifest does not have.
    """
    marble = None
    if identity is not None:
        marble = read_marble_certificate(identity, state.keys.marble_root_cert)
    if marble is None or not marble.is_valid(moment(now)):
        raise UnauthenticatedError(
            "this call needs the certificate of an activated workload",
            hint="connect with the certificate and key that the workload was given at its last"
            " activation; an update of the manifest ends them",
        )
    if marble.marble_type not in policy_of(state.manifest).manifest.marbles:
        raise UnauthenticatedError("the manifest has no such marble type any more")
    return marble


class Counters:
    """The counters in the state of ``engine``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def raise_to(self, identity: bytes | None, name: str, value: int) -> tuple[int, View]:
        """Raise a counter of the workload that calls, if it is lower; return its value before.

        What is returned is durable.
        """
        view = self._engine.view
        require_enabled(view, Operation.COUNT, FeatureGate.MONOTONIC_COUNTER)
        state = view.running
        caller = identify_marble(state, identity, now=self._engine.now())
        marble = (caller.marble_type, caller.uuid)
        command = SetCounter(state.keys.marble_root_cert, marble, name, value)
        decision = await self._engine.decision(command)
        await self._engine.lease.anchor(Anchored.COUNTERS)
        assert isinstance(decision.before, Running)  # noqa: S101 it was decided
        return counter_of(decision.before, marble, name), decision.view


class Signed(msgspec.Struct, frozen=True):
    """A quote that verified."""

    tcb_status: TcbStatus
    signature: bytes  # by the root key, over quote and status
    view: View  # the view whose manifest enables this


class QuoteSigning:
    """Signs with the root key of ``engine`` what ``checks`` verifies, on the thread of the latter.

    Anyone may ask, so no other thread is used.
    """

    def __init__(self, engine: Engine, checks: QuoteChecks) -> None:
        self._engine = engine
        self._checks = checks

    async def sign(self, quote: bytes) -> Signed:
        """Sign ``quote`` as it was submitted, with the header in front or without.

        It is compared with no package. Source: Client API, "sign-quote".

        Raises:
            QuoteRefusedError: it does not verify, or its vendor states no TCB status (SEV-SNP).
            BadRequestError: its length is ambiguous.
            WrongPhaseError, ForbiddenError: not enabled, or not any more.
            UnavailableError: not now.
        """
        verdict = await self._checks.verify(quote)
        # The manifest may have been replaced by one that does not enable this.
        view = self._engine.view
        require_enabled(view, Operation.SIGN_QUOTE, FeatureGate.SIGN_QUOTE_ENDPOINT)
        keys, status = view.state.keys, verdict.tcb_status
        if status is None:
            raise QuoteRefusedError(
                QuoteProblem.TCB_LEVEL,
                "only quotes with a TCB status are signed, and the vendor of this one states none",
                hint="verify reports of SEV-SNP where they are used",
            )
        signature = await self._checks.in_turn(lambda: sign_quote_text(keys, quote, status))
        return Signed(status, signature, view)
