"""Which states of a platform are accepted: one rule for packages and for the coordinator."""

from collections.abc import Collection

from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.wire.tcb_status import TcbStatus

_DEFAULT = (TcbStatus.SW_HARDENING_NEEDED,)


def accept_tcb(
    status: TcbStatus | None,
    advisories: Collection[str],
    *,
    accepted_statuses: Collection[str] = (),
    accepted_advisories: Collection[str] = (),
) -> None:
    """Raise ``IdentityRefusedError`` unless the platform's state is accepted.

    Source: manifest format, "TCB status and advisories".
    """
    accept_status(status, accepted_statuses)
    accept_advisories(status, advisories, accepted_advisories)


def accept_status(status: TcbStatus | None, accepted: Collection[str]) -> None:
    """Raise ``IdentityRefusedError`` unless ``status`` is accepted.

    ``UpToDate`` always is; ``Revoked`` never, listed or not; any other only if listed, where an
    empty list means ``SWHardeningNeeded``. Names match exactly. ``None``, which no vendor has
    stated, is never accepted here.
    """
    if status is None:
        raise IdentityRefusedError(
            "the platform's vendor states no TCB status",
            hint="name it by SNP, whose MinimumTCB says what the platform has to have",
        )
    if status is TcbStatus.UP_TO_DATE:
        return
    if status is TcbStatus.REVOKED or status not in (accepted or _DEFAULT):
        raise IdentityRefusedError(
            f"the platform's TCB status is {status}, which is not accepted",
            hint="update the platform, or list the status in AcceptedTCBStatuses",
        )


def accept_advisories(
    status: TcbStatus | None, found: Collection[str], accepted: Collection[str]
) -> None:
    """Raise ``IdentityRefusedError`` if software hardening is needed for what is not ``accepted``.

    Advisories count for exactly ``SWHardeningNeeded``: each must be listed (in any case of
    letters) unless no list is given.
    """
    if status is not TcbStatus.SW_HARDENING_NEEDED or not accepted:
        return
    listed = {name.casefold() for name in accepted}
    others = sorted(name for name in found if name.casefold() not in listed)
    if others:
        raise IdentityRefusedError(
            f"the platform needs software hardening for {', '.join(others)}",
            hint="make sure that the enclave is hardened, then list them in AcceptedAdvisories",
        )
