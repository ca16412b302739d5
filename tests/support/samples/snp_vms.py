"""A simulated confidential VM of SEV-SNP, and its fields in a package."""

from typing import Any, Final

import msgspec

from keyhouse.attestation import Verdict, Verifier, read_amd_collateral
from keyhouse.attestation.kinds.snp.report import SnpMeasurements
from keyhouse.attestation.quote.report import Report
from keyhouse_simulation import QuotedSnp, SimulatedPlatform, amd_vendor
from keyhouse_simulation.platform import utc_now

__all__ = ["SNP", "VM", "collateral", "snp_of", "verdict"]

VM: Final = QuotedSnp(
    measurement=b"m" * 48,
    host_data=b"h" * 32,
    id_key_digest=b"i" * 48,
    author_key_digest=b"a" * 48,
    family_id=b"f" * 16,
    image_id=b"g" * 16,
    signer_info=1,
    guest_svn=7,
)
collateral: Final = read_amd_collateral(
    [(amd_vendor.ASK + amd_vendor.VLEK_AUTHORITY + amd_vendor.LIST).encode()]
)

SNP: Final[dict[str, Any]] = {
    "Measurement": VM.measurement.hex(),
    "HostData": VM.host_data.hex(),
    "IDKeyDigest": VM.id_key_digest.hex(),
    "AuthorKeyDigest": VM.author_key_digest.hex(),
    "FamilyID": VM.family_id.hex(),
    "ImageID": VM.image_id.hex(),
    "Policy": VM.policy.hex(),
    "Product": "Genoa",
    "MinimumTCB": {"Bootloader": 10, "TEE": 0, "SNP": 23, "Microcode": 84},
    "VMPL": 0,
    "SigningKey": "VCEK",
    "MinimumGuestSVN": 7,
    "AliasCheckComplete": True,
}
"""All fields in a manifest."""


def verdict(machine: SimulatedPlatform, report_data: bytes, **bent: Any) -> Verdict:
    """Return the verdict on a report of ``VM``; ``bent`` replaces values."""
    quote = machine.snp_quote(msgspec.structs.replace(VM, **bent), report_data)
    return Verifier(machine.root_ca, machine.amd_roots).verify(quote, collateral, utc_now())


def snp_of(report: Report) -> SnpMeasurements:
    assert isinstance(report.measurements, SnpMeasurements)
    return report.measurements
