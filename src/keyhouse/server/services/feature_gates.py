"""Operations that a manifest must enable: monotonic counters, and signatures over quotes.

A signature over a quote is for clients that trust the root key instead of a vendor of processors.
Source: ``docs/reference/activations.md``, "Counters"; ``docs/reference/routes.md``.
"""

import msgspec

from keyhouse.attestation import QuoteProblem, QuoteRefusedError, TcbStatus
from keyhouse.authority import MarbleIdentity, read_marble_certificate, sign_quote_text
from keyhouse.base.errors import ForbiddenError, UnauthenticatedError
from keyhouse.base.printable import quoted
from keyhouse.coordinator import Engine, Operation, Running, SetCounter, View, counter_of, policy_of
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.lineages import lineage_of, require_unrevoked
from keyhouse.manifest import Anchored, FeatureGate
from keyhouse.server.services.quote_checks import QuoteChecks


def require_gate(state: Running, operation: Operation, gate: FeatureGate) -> None:
    """Require that the manifest in force enables ``operation``.

    ``gate``: the name in the manifest that enables the operation. Raises ``ForbiddenError``.
    """
    if not policy_of(state.manifest).has_gate(gate):
        raise ForbiddenError(
            f"the manifest in force does not enable {operation}",
            hint=f"add {gate} to Config.FeatureGates of the manifest",
        )


def identify_marble(state: Running, identity: bytes | None, *, now: int) -> MarbleIdentity:
    """Return the workload of the certificate ``identity`` (DER of the leaf), under ``state``.

    ``now`` is security time (microseconds since 1970). The marble root in force must have issued
    the certificate; the root before an update does not count. The certificate must be valid at
    ``now``, and the manifest must have its marble type. A certificate of a lineage must have the
    newest key of the lineage.

    Raises:
        UnauthenticatedError: the certificate is missing, of another root or type, or not valid.
        ActivateAgainError, RevokedError, LineageSupersededError, RenewFirstError: the lineage is
            unknown, revoked, or has a newer key, or a user has revoked the type.
    """
    marble = None
    if identity is not None:
        marble = read_marble_certificate(identity, state.keys.marble_root_cert)
    if marble is None or not marble.is_valid(moment(now)):
        raise UnauthenticatedError(
            "this call needs the certificate of an activated workload",
            hint="connect with the certificate and key of the workload's last activation; after an"
            " update of the manifest, activate the workload again",
        )
    if marble.lineage is not None:
        require_unrevoked(lineage_of(state, marble.lineage.id, now), marble.key)
    if marble.marble_type not in policy_of(state.manifest).manifest.marbles:
        raise UnauthenticatedError(
            f"the manifest no longer has the marble type {quoted(marble.marble_type)}",
            hint="add the type to the manifest by an update, and activate the workload again",
        )
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
            "the vendor of this quote states no TCB status, and a signature needs a status",
            hint="send a quote of SGX or TDX; let the client of an SEV-SNP quote verify the quote",
        )
    signature = await checks.in_turn(lambda: sign_quote_text(keys, quote, status))
    return Signed(status, signature, view)
