"""Rules for ``Config.Replicas``: which other coordinators are handed the data key."""

import re
from typing import Final

from keyhouse.base.findings import Findings
from keyhouse.base.place import Place
from keyhouse.manifest.document import ConfigDocument
from keyhouse.manifest.model import Package, SealMode
from keyhouse.manifest.rules.packages import check_identity, check_statuses

PLATFORM: Final = "^(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{128})$"
"""A PPID, or a CHIP_ID of AMD."""

_PLATFORM: Final = re.compile(PLATFORM, re.ASCII)
_BESIDE: Final = ("AcceptedTCBStatuses", "AcceptedAdvisories")


def check_replicas(config: ConfigDocument, findings: Findings) -> None:
    """Check who is named, and warn of what makes the section weaker than it looks."""
    replicas = config.replicas
    if replicas is None:
        return
    here: Place = ("Config", "Replicas")
    for index, package in enumerate(replicas.code):
        _check_code((*here, "Code", index), package, findings)
    check_statuses(here, replicas.accepted_tcb_statuses, findings)
    for index, platform in enumerate(replicas.platforms):
        if not _PLATFORM.fullmatch(platform):
            problem = "is not a platform's ID, of 32 hex digits, or 128 for AMD"
            findings.refuse((*here, "Platforms", index), problem, "the PPID that its quotes have")
    _warn_of_seal_mode(here, config.seal_mode, findings)


def _check_code(place: Place, package: Package, findings: Findings) -> None:
    lists = (package.accepted_tcb_statuses, package.accepted_advisories)
    for field, given in zip(_BESIDE, lists, strict=True):
        if given:
            problem = "does not belong into an entry of Code, which says only who a coordinator is"
            findings.refuse((*place, field), problem, "Replicas.AcceptedTCBStatuses is for all")
    check_identity(place, package, findings)
    if package.signer_id and not package.unique_id:
        problem = "names a signer: what is signed with that key later is given the data key, too"
        findings.warn(place, problem, "give UniqueID, so that users agree to each version")


def _warn_of_seal_mode(place: Place, mode: str, findings: Findings) -> None:
    if mode == SealMode.DISABLED:
        findings.warn(
            place,
            "has no effect with SealMode Disabled: nothing is stored that others could open",
            "remove it, or choose another SealMode",
        )
    elif mode != SealMode.UNIQUE_KEY:
        findings.warn(
            place,
            "does not bind the coordinator's own signer: with SealMode ProductKey other code of the"
            " same signer and product opens the state where it was sealed",
            "say SealMode UniqueKey",
        )
