"""Which workload calls: decided by its certificate alone, against the state of now.

Source: wire reference, "Authentication and permissions".
"""

from keyhouse.authority import MarbleIdentity, read_marble_certificate
from keyhouse.base.errors import Unauthenticated
from keyhouse.coordinator import Running, policy_of
from keyhouse.coordinator.core.timestamps import moment

__all__ = ["identify_marble"]


def identify_marble(state: Running, identity: bytes | None, *, now: int) -> MarbleIdentity:
    """Return whose certificate ``identity`` (DER of the leaf) is; ``now`` is security time.

    Raises ``Unauthenticated``: none, not issued by the present marble root (also one from before
    an update), not in its time, or of a type that the manifest does not have.
    """
    marble = None
    if identity is not None:
        marble = read_marble_certificate(identity, state.keys.marble_root_cert)
    if marble is None or not marble.is_valid(moment(now)):
        raise Unauthenticated(
            "this call needs the certificate of an activated workload",
            hint="connect with the certificate and key that the workload was given at its last"
            " activation; an update of the manifest ends them",
        )
    if marble.marble_type not in policy_of(state.manifest).manifest.marbles:
        raise Unauthenticated("the manifest has no such marble type any more")
    return marble
