"""Rules for ``TDX`` and ``SNP`` of a package: which confidential VMs, and what it leaves open."""

from typing import Final

from msgspec.structs import fields

from keyhouse.base.findings import Findings
from keyhouse.base.place import Place
from keyhouse.manifest.model import Package
from keyhouse.wire.snp import SnpIdentity
from keyhouse.wire.tdx import TdxIdentity
from keyhouse.wire.vm_identity import VmIdentity, kind_of_vm, problems_of_identity

_LEFT_OPEN: Final = {
    "RTMR0": "the host can give it other ACPI tables, whose code its kernel runs",
    "RTMR1": "any kernel is admitted",
    "RTMR2": "any kernel command line and initial RAM disk are admitted",
}
_REGISTERS: Final = (*_LEFT_OPEN, "RTMR3")
_SET_BY_THE_HOST: Final = ("MRConfigID", "MROwner", "MROwnerConfig")
_FROM_A_QUOTE: Final = "keyhouse package-info prints the values of a quote"


def check_confidential_vm(
    place: Place, package: Package, wanted: VmIdentity, findings: Findings
) -> None:
    """Check the identity of a package with ``TDX`` or ``SNP``; warn of what it leaves open."""
    kind = kind_of_vm(wanted)
    beside = {
        "Debug": package.debug or None,
        "UniqueID": package.unique_id or None,
        "SignerID": package.signer_id or None,
        "ProductID": package.product_id,
        "SecurityVersion": package.security_version,
        "TDX": package.tdx if kind != "TDX" else None,
    }
    given = [field for field, value in beside.items() if value is not None]
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
    """Refuse what would be expected to restrict platforms, and does not."""
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


def _warn_of_the_host(missing: list[str], here: Place, findings: Findings) -> None:
    if missing:
        findings.warn(
            here,
            f"does not give {', '.join(missing)}, so the host chooses what the VM reads there",
            "give them, in zeros if the VM is started without",
        )


def _values(wanted: TdxIdentity) -> dict[str, str]:
    return {field.encode_name: getattr(wanted, field.name) for field in fields(wanted)}
