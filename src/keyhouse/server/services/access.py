"""What a use case asks of its caller beyond the permissions of users.

Source: wire reference, "Authentication and permissions".
"""

from keyhouse.authority import MarbleIdentity, read_marble_certificate
from keyhouse.base.errors import ForbiddenError, UnauthenticatedError
from keyhouse.coordinator import Operation, Running, View, policy_of, require
from keyhouse.coordinator.core.timestamps import moment
from keyhouse.manifest import FeatureGate


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
