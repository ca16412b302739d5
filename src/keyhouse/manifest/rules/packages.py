"""Rules for ``Packages`` and ``Infrastructures``: workloads and platforms.

A package with a field of ``VM_KINDS`` (``TDX`` or ``SNP``) describes a confidential VM. The rules
warn of fields that such a package does not give.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from keyhouse.base.errors import Findings
from keyhouse.base.printable import Place
from keyhouse.manifest.model import Infrastructure
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.package import Package
from keyhouse.wire.tcb_status import TcbStatus

_STATUSES: Final = frozenset(TcbStatus)
_MEASUREMENT = r"[0-9a-fA-F]{64}"
LARGEST = 2**16 - 1  # ISVPRODID and ISVSVN are 16-bit fields of a quote


def check_packages(packages: Mapping[str, Package], findings: Findings) -> None:
    """Check that packages exist, each with a complete identity and known TCB statuses.

    This includes packages that no marble type names.
    """
    if not packages:
        findings.refuse(
            ("Packages",), "is empty", "name at least one enclave program or confidential VM"
        )
    for name, package in packages.items():
        place = ("Packages", name)
        check_identity(place, package, findings)
        check_statuses(place, package.accepted_tcb_statuses, findings)


def check_identity(place: Place, package: Package, findings: Findings) -> None:
    """Check that ``package`` identifies one enclave or one confidential VM, completely."""
    if package.vm is not None:
        _check_confidential_vm(place, package, package.vm, findings)
    elif package.debug:
        findings.warn(
            (*place, "Debug"),
            "quotes of debug enclaves are refused, so this package admits nobody",
            "sign a production build and remove Debug",
        )
    else:
        _check_enclave(place, package, findings)
    _check_numbers(place, package, findings)


def _check_enclave(place: Place, package: Package, findings: Findings) -> None:
    signer = {
        "SignerID": package.signer_id or None,
        "ProductID": package.product_id,
        "SecurityVersion": package.security_version,
    }
    given = [field for field, value in signer.items() if value is not None]
    if package.unique_id and given:
        findings.refuse(
            place,
            f"has an ambiguous identity: UniqueID together with {' and '.join(given)}",
            "keep UniqueID, or SignerID, ProductID and SecurityVersion",
        )
    elif not package.unique_id and len(given) < len(signer):
        for field in signer:
            if field not in given:
                hint = "write SignerID, ProductID and SecurityVersion, or only UniqueID"
                findings.refuse((*place, field), "is missing", hint)
    for field, value in (("UniqueID", package.unique_id), ("SignerID", package.signer_id)):
        if value and not re.fullmatch(_MEASUREMENT, value):
            hint = "write 64 hex digits, without 0x or spaces"
            findings.refuse((*place, field), "is not 64 hex digits", hint)


def _check_numbers(place: Place, package: Package, findings: Findings) -> None:
    numbers = {"ProductID": package.product_id, "SecurityVersion": package.security_version}
    for field, value in numbers.items():
        if value is not None and value > LARGEST:
            problem = f"is over {LARGEST}, which no enclave can report"
            findings.warn((*place, field), problem, "write the number of the enclave")


def check_statuses(place: Place, statuses: Iterable[str], findings: Findings) -> None:
    """Check the field ``AcceptedTCBStatuses`` of the object at ``place``."""
    for index, status in enumerate(statuses):
        here = (*place, "AcceptedTCBStatuses", index)
        if status not in _STATUSES:
            findings.refuse(here, "is not a TCB status", nearest(status, tuple(TcbStatus)))
        elif status == "Revoked":
            findings.warn(here, "is never accepted: revoked platforms are refused", "remove it")


def check_infrastructures(
    infrastructures: Mapping[str, Infrastructure], findings: Findings
) -> None:
    """Warn that ``Infrastructures`` restricts nothing."""
    if infrastructures:
        findings.warn(
            ("Infrastructures",),
            "is kept but not enforced, so this section does not restrict platforms",
            "restrict them by AcceptedTCBStatuses and AcceptedAdvisories",
        )


def _check_confidential_vm(
    place: Place, package: Package, wanted: VmIdentity, findings: Findings
) -> None:
    """Check ``wanted``, the identity of a confidential VM; warn of fields that are not given.

    Refuse a second identity in ``package``.
    """
    kind = wanted.FIELD
    other_identities = {
        "Debug": package.debug or None,
        "UniqueID": package.unique_id or None,
        "SignerID": package.signer_id or None,
        "ProductID": package.product_id,
        "SecurityVersion": package.security_version,
        **{each.FIELD: each for each in package.vms if each is not wanted},
    }
    given = [field for field, value in other_identities.items() if value is not None]
    if given:
        findings.refuse(
            place,
            f"has an ambiguous identity: {kind} together with {' and '.join(given)}",
            f"keep {kind}, or the identity of an SGX enclave",
        )
    here: Place = (*place, kind)
    for found in wanted.problems():
        findings.refuse((*here, *found.at.split(".")), found.problem, found.hint)
    if not wanted.STATES_TCB:
        _check_no_status(place, package, kind, findings)
    for found in wanted.warnings():
        findings.warn((*here, found.at) if found.at else here, found.problem, found.hint)


def _check_no_status(place: Place, package: Package, kind: str, findings: Findings) -> None:
    """Refuse lists of TCB statuses and advisories for a kind of VM whose vendor states neither."""
    lists = {
        "AcceptedTCBStatuses": package.accepted_tcb_statuses,
        "AcceptedAdvisories": package.accepted_advisories,
    }
    for field, given in lists.items():
        if given:
            problem = f"has no meaning with {kind}: AMD states no TCB status and no advisories"
            findings.refuse((*place, field), problem, f"remove it, and raise {kind}.MinimumTCB")
