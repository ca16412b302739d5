"""Operations that a manifest must enable: monotonic counters, and signatures over quotes.

A signature over a quote serves clients that trust the root key, and no vendor of processors.
Source: ``docs/reference/activations.md``, "Counters"; ``docs/reference/routes.md``.
"""

import msgspec

from keyhouse.attestation import QuoteProblem, QuoteRefusedError, TcbStatus
from keyhouse.authority import MarbleIdentity, read_marble_certificate, sign_quote_text
from keyhouse.base.errors import ForbiddenError, UnauthenticatedError
from keyhouse.coordinator import Engine, Operation, Running, SetCounter, View, counter_of, policy_of
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.lineages import lineage_of, require_unrevoked
from keyhouse.manifest import Anchored, FeatureGate
from keyhouse.server.services.quote_checks import QuoteChecks


def require_gate(state: Running, operation: Operation, gate: FeatureGate) -> None:
    """Raise ``ForbiddenError`` unless the manifest in force enables ``operation``.

    ``gate``: the name in the manifest that enables the operation.
    """
    if not policy_of(state.manifest).has_gate(gate):
        raise ForbiddenError(
            f"{operation} is not enabled",
            hint=f"add {gate} to Config.FeatureGates of the manifest",
        )


def identify_marble(state: Running, identity: bytes | None, *, now: int) -> MarbleIdentity:
    """Return the workload of the certificate ``identity`` (DER of the leaf).

    Only the certificate decides, under ``state``. ``now`` is security time (microseconds). Raises
    ``UnauthenticatedError`` for a missing certificate, for a certificate of another marble root
    (even of the root before an update), outside of its validity, or of a type that is not in the
    manifest.

    A certificate of a lineage counts only with the newest key of the lineage. Otherwise raises
    ``RevokedError``, ``LineageSupersededError`` or, after a revocation of the type,
    ``RenewFirstError``.
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
    if marble.lineage is not None:
        require_unrevoked(lineage_of(state, marble.lineage.id, now), marble.key)
    if marble.marble_type not in policy_of(state.manifest).manifest.marbles:
        raise UnauthenticatedError("the manifest has no such marble type any more")
    return marble


async def raise_counter(
    engine: Engine, identity: bytes | None, name: str, value: int
) -> tuple[int, View]:
    """Raise the counter ``name`` of the calling workload to ``value``, if it is higher.

    Return the previous value, and the view with the change. The change is durable. ``identity``:
    the DER of the workload's certificate, or None.
    """
    state = engine.view.running_for(Operation.COUNT)
    require_gate(state, Operation.COUNT, FeatureGate.MONOTONIC_COUNTER)
    caller = identify_marble(state, identity, now=engine.current.now())
    marble = (caller.marble_type, caller.uuid)
    decision = await engine.queue.add(SetCounter(state.keys.marble_root_cert, marble, name, value))
    await engine.lease.anchor(Anchored.COUNTERS)
    assert isinstance(decision.before, Running)  # noqa: S101 it was decided
    return counter_of(decision.before, marble, name), decision.view


class Signed(msgspec.Struct, frozen=True):
    """The TCB status of a verified quote, and the root key's signature over quote and status."""

    tcb_status: TcbStatus
    # By the root key, over quote and status.
    signature: bytes
    # The view whose manifest enables the signature.
    view: View


async def sign_quote(engine: Engine, checks: QuoteChecks, quote: bytes) -> Signed:
    """Sign ``quote`` as submitted, with or without its header, after a verification by ``checks``.

    The quote is not compared with packages. Everybody may request signatures, so the signature is
    made on the one thread of ``checks``. Source: ``docs/reference/routes.md``.

    Raises:
        QuoteRefusedError: the quote does not verify, or has no TCB status.
        BadRequestError: the length of the quote is ambiguous.
        WrongPhaseError, ForbiddenError: signatures are not enabled, or not any more.
        UnavailableError: the checks are busy or have no collateral.
    """
    verdict = await checks.verify(quote)
    # A newer manifest may not enable signatures.
    view = engine.view
    state = view.running_for(Operation.SIGN_QUOTE)
    require_gate(state, Operation.SIGN_QUOTE, FeatureGate.SIGN_QUOTE_ENDPOINT)
    keys, status = state.keys, verdict.tcb_status
    if status is None:
        raise QuoteRefusedError(
            QuoteProblem.TCB_LEVEL,
            "only quotes with a TCB status are signed, and the vendor of this one states none",
            hint="verify reports of AMD where they are used",
        )
    signature = await checks.in_turn(lambda: sign_quote_text(keys, quote, status))
    return Signed(status, signature, view)
