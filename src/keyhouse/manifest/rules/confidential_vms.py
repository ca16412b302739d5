"""Rules for ``Packages.<name>.TDX``: which confidential VMs, and what a package leaves open."""

from typing import Final

from msgspec.structs import fields

from keyhouse.base.findings import Findings
from keyhouse.base.place import Place
from keyhouse.manifest.model import Package
from keyhouse.wire.tdx import TdxIdentity, problems_of_identity

__all__ = ["check_confidential_vm"]

_LEFT_OPEN: Final = {
    "RTMR0": "the host can give it other ACPI tables, whose code its kernel runs",
    "RTMR1": "any kernel is admitted",
    "RTMR2": "any kernel command line and initial RAM disk are admitted",
}
_REGISTERS: Final = (*_LEFT_OPEN, "RTMR3")
_SET_BY_THE_HOST: Final = ("MRConfigID", "MROwner", "MROwnerConfig")
_FROM_A_QUOTE: Final = "keyhouse package-info prints the values of a quote"


def check_confidential_vm(
    place: Place, package: Package, wanted: TdxIdentity, findings: Findings
) -> None:
    """Check the identity of a package with ``TDX``; warn of what it leaves to the host."""
    beside = {
        "Debug": package.debug or None,
        "UniqueID": package.unique_id or None,
        "SignerID": package.signer_id or None,
        "ProductID": package.product_id,
        "SecurityVersion": package.security_version,
    }
    given = [field for field, value in beside.items() if value is not None]
    if given:
        findings.refuse(
            place,
            f"has an ambiguous identity: TDX together with {' and '.join(given)}",
            "keep TDX, or the identity of an SGX enclave",
        )
    here: Place = (*place, "TDX")
    for found in problems_of_identity(wanted):
        findings.refuse((*here, found.at), found.problem, found.hint)
    _warn_of_what_is_open(here, _values(wanted), findings)


def _warn_of_what_is_open(here: Place, values: dict[str, str], findings: Findings) -> None:
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
    missing = [field for field in _SET_BY_THE_HOST if not values[field]]
    if missing:
        findings.warn(
            here,
            f"does not give {', '.join(missing)}, so the host chooses what the VM reads there",
            "give them, in zeros if the VM is started without",
        )


def _values(wanted: TdxIdentity) -> dict[str, str]:
    return {field.encode_name: getattr(wanted, field.name) for field in fields(wanted)}
