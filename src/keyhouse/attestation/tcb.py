"""Which states of a platform are accepted: one rule for packages and for the coordinator."""

from collections.abc import Collection

from keyhouse.attestation.errors import IdentityRefused
from keyhouse.attestation.verdict import TcbStatus

__all__ = ["accept_tcb"]

_DEFAULT = (TcbStatus.SW_HARDENING_NEEDED,)


def accept_tcb(
    status: TcbStatus,
    advisories: Collection[str],
    *,
    accepted_statuses: Collection[TcbStatus] = (),
    accepted_advisories: Collection[str] = (),
) -> None:
    """Raise ``IdentityRefused`` unless the platform's state is accepted.

    ``UpToDate`` always is; ``Revoked`` never, listed or not; any other only if listed, where an
    empty list means ``SWHardeningNeeded``. Advisories count for exactly that status: each must be
    listed (in any case of letters) unless no list is given. Source: manifest format, "TCB status
    and advisories".
    """
    if status is TcbStatus.UP_TO_DATE:
        return
    if status is TcbStatus.REVOKED or status not in (accepted_statuses or _DEFAULT):
        raise IdentityRefused(
            f"the platform's TCB status is {status}, which is not accepted",
            hint="update the platform, or list the status in AcceptedTCBStatuses",
        )
    if status is TcbStatus.SW_HARDENING_NEEDED and accepted_advisories:
        _accept_advisories(advisories, accepted_advisories)


def _accept_advisories(found: Collection[str], accepted: Collection[str]) -> None:
    listed = {name.casefold() for name in accepted}
    others = sorted(name for name in found if name.casefold() not in listed)
    if others:
        raise IdentityRefused(
            f"the platform needs software hardening for {', '.join(others)}",
            hint="make sure that the enclave is hardened, then list them in AcceptedAdvisories",
        )
