"""Rules for ``Packages`` and ``Infrastructures``: workloads and platforms.

A package with ``TDX`` or ``SNP`` describes a confidential VM. The rules warn of fields that it
leaves open.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import fields

from keyhouse.base.findings import Findings
from keyhouse.base.printable import Place
from keyhouse.manifest.model import Infrastructure
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.package import Package
from keyhouse.wire.snp import SnpIdentity
from keyhouse.wire.tcb_status import TcbStatus
from keyhouse.wire.tdx import TdxIdentity
from keyhouse.wire.vm_identity import VmIdentity, kind_of_vm, problems_of_identity

_STATUSES: Final = frozenset(TcbStatus)
_MEASUREMENT = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
LARGEST = 2**16 - 1  # ISVPRODID and ISVSVN are 16-bit fields of a quote


_LEFT_OPEN: Final = {
    "RTMR0": "the host can give it other ACPI tables, whose code its kernel runs",
    "RTMR1": "any kernel is admitted",
    "RTMR2": "any kernel command line and initial RAM disk are admitted",
}
_REGISTERS: Final = (*_LEFT_OPEN, "RTMR3")
_SET_BY_THE_HOST: Final = ("MRConfigID", "MROwner", "MROwnerConfig")
_FROM_A_QUOTE: Final = "keyhouse package-info prints the values of a quote"


def check_packages(packages: Mapping[str, Package], findings: Findings) -> None:
    """Check V1, V4 and V5, also for packages without a marble."""
    if not packages:
        findings.refuse(
            ("Packages",), "is empty", "name at least one enclave program or confidential VM"
        )
    for name, package in packages.items():
        place = ("Packages", name)
        check_identity(place, package, findings)
        check_statuses(place, package.accepted_tcb_statuses, findings)


def check_identity(place: Place, package: Package, findings: Findings) -> None:
    """Check V4 and V5: the identity in ``package``, an enclave or a confidential VM."""
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
                hint = "give SignerID, ProductID and SecurityVersion, or UniqueID alone"
                findings.refuse((*place, field), "is missing", hint)
    for field, value in (("UniqueID", package.unique_id), ("SignerID", package.signer_id)):
        if value and not _MEASUREMENT.fullmatch(value):
            findings.refuse((*place, field), "is not 64 hex digits", "without 0x or spaces")


def _check_numbers(place: Place, package: Package, findings: Findings) -> None:
    numbers = {"ProductID": package.product_id, "SecurityVersion": package.security_version}
    for field, value in numbers.items():
        if value is not None and value > LARGEST:
            findings.warn((*place, field), f"is over {LARGEST}, which no enclave can report")


def check_statuses(place: Place, statuses: Iterable[str], findings: Findings) -> None:
    """Check the field ``AcceptedTCBStatuses`` of the object at ``place``."""
    for index, status in enumerate(statuses):
        here = (*place, "AcceptedTCBStatuses", index)
        if status not in _STATUSES:
            findings.refuse(here, "is no TCB status", nearest(status, tuple(TcbStatus)))
        elif status == "Revoked":
            findings.warn(here, "is never accepted: revoked platforms are refused", "remove it")


def check_infrastructures(
    infrastructures: Mapping[str, Infrastructure], findings: Findings
) -> None:
    """Warn that the section restricts nothing."""
    if infrastructures:
        findings.warn(
            ("Infrastructures",),
            "is kept but not enforced: platforms are not restricted by it",
            "restrict them by AcceptedTCBStatuses and AcceptedAdvisories",
        )


def _check_confidential_vm(
    place: Place, package: Package, wanted: VmIdentity, findings: Findings
) -> None:
    """Check the identity of a package with ``TDX`` or ``SNP``; warn of open fields."""
    kind = kind_of_vm(wanted)
    other_identities = {
        "Debug": package.debug or None,
        "UniqueID": package.unique_id or None,
        "SignerID": package.signer_id or None,
        "ProductID": package.product_id,
        "SecurityVersion": package.security_version,
        "TDX": package.tdx if kind != "TDX" else None,
    }
    given = [field for field, value in other_identities.items() if value is not None]
    if given:
        findings.refuse(
            place,
            f"has an ambiguous identity: {kind} together with {' and '.join(given)}",
            f"keep {kind}, or the identity of an SGX enclave",
        )
    here: Place = (*place, kind)
    for found in problems_of_identity(wanted):
        findings.refuse((*here, *found.at.split(".")), found.problem, found.hint)
    if isinstance(wanted, TdxIdentity):
        _warn_of_td(here, _values(wanted), findings)
    else:
        _check_no_status(place, package, findings)
        _warn_of_snp(here, wanted, findings)


def _warn_of_td(here: Place, values: dict[str, str], findings: Findings) -> None:
    if not any(values[register] for register in _REGISTERS):
        problem = "names no RTMR: any kernel with any command line is admitted"
        findings.warn(here, problem, _FROM_A_QUOTE)
    else:
        for register, consequence in _LEFT_OPEN.items():
            if not values[register]:
                findings.warn((*here, register), f"is not given: {consequence}", _FROM_A_QUOTE)
            elif not values[register].strip("0"):
                problem = f"is all zeros, as if the boot measures nothing: then {consequence}"
                findings.warn((*here, register), problem, "start a firmware that measures")
    _warn_of_the_host([field for field in _SET_BY_THE_HOST if not values[field]], here, findings)


def _check_no_status(place: Place, package: Package, findings: Findings) -> None:
    """Refuse fields that look like a restriction of platforms, but have no effect."""
    lists = {
        "AcceptedTCBStatuses": package.accepted_tcb_statuses,
        "AcceptedAdvisories": package.accepted_advisories,
    }
    for field, given in lists.items():
        if given:
            problem = "has no meaning with SNP: AMD states no TCB status and no advisories"
            findings.refuse((*place, field), problem, "remove it, and raise SNP.MinimumTCB")


def _warn_of_snp(here: Place, wanted: SnpIdentity, findings: Findings) -> None:
    if not wanted.policy:
        findings.warn(
            (*here, "Policy"),
            "is not given: the host chooses it, hyperthreads and the oldest ABI included",
            _FROM_A_QUOTE,
        )
    _warn_of_the_host(["HostData"] if not wanted.host_data else [], here, findings)
    if wanted.vmpl:
        problem = "is not 0: software at higher privilege levels in the VM is trusted as well"
        findings.warn((*here, "VMPL"), problem, "see that Measurement names that software")
    named_by_key = (wanted.id_key_digest or wanted.author_key_digest).strip("0")
    if (wanted.family_id or wanted.image_id).strip("0") and not named_by_key:
        findings.warn(
            here,
            "gives FamilyID or ImageID, which anybody can claim without a key that signs them",
            "give IDKeyDigest",
        )
    if wanted.minimum_guest_svn and not named_by_key:
        problem = "can be claimed by anybody: no key is named that signs the ID block with it"
        findings.warn((*here, "MinimumGuestSVN"), problem, "give IDKeyDigest")


def _warn_of_the_host(missing: list[str], here: Place, findings: Findings) -> None:
    if missing:
        findings.warn(
            here,
            f"does not give {', '.join(missing)}, so the host chooses what the VM reads there",
            "give them, in zeros if the VM is started without",
        )


def _values(wanted: TdxIdentity) -> dict[str, str]:
    return {field.encode_name: getattr(wanted, field.name) for field in fields(wanted)}
