"""Who has signed the pending update: as their own keys prove it, whatever the coordinator says."""

from typing import Final

from keyhouse.base.errors import KeyhouseError
from keyhouse.client import AsyncCoordinator, TrustError
from keyhouse.console.deployments import InForce
from keyhouse.console.public_log import LogPart
from keyhouse.manifest import fingerprint
from keyhouse.transparency.approval import Decision, SignedApproval
from keyhouse.transparency.leaf import UpdateApproved, UpdateProposed, name_in_leaf

_AGREED: Final = frozenset({Decision.PROPOSE, Decision.APPROVE})


async def signers(
    coordinator: AsyncCoordinator, log: LogPart, in_force: InForce, pending: bytes
) -> set[str]:
    """Return the users whose signed approval of the ``pending`` manifest is in ``log``.

    Nobody if an approval cannot be read now: who has agreed is known without it. Raises
    ``TrustError``.
    """
    users = in_force.manifest.users
    names = {name_in_leaf(name): name for name in users}
    found: set[str] = set()
    try:
        for leaf in log.leaves:
            if not isinstance(leaf, UpdateProposed | UpdateApproved):
                continue
            if leaf.approval and leaf.user in names:
                name = names[leaf.user]
                raw = await coordinator.log_part(f"object/{leaf.approval}")
                if _has_signed(raw, users[name].certificate, leaf.user, pending):
                    found.add(name)
            if isinstance(leaf, UpdateProposed):
                break
    except TrustError:
        raise
    except KeyhouseError:
        return set()
    return found


def _has_signed(raw: bytes, certificate: bytes, user: str, pending: bytes) -> bool:
    try:
        signed = SignedApproval.read(raw)
        signed.verify(certificate)
    except KeyhouseError:
        return False
    approval = signed.approval
    same = (approval.user, approval.manifest) == (user, fingerprint(pending))
    return same and approval.decision in _AGREED
