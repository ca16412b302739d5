"""The confidential VM of a TDX quote, and VMs that are never trusted."""

from typing import Any

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.attestation.quote.report import VmMeasurements
from keyhouse.wire.kinds.tdx import TdxIdentity, attributes_fault, xfam_fault


class TdMeasurements(VmMeasurements, frozen=True, kw_only=True):
    """The identity of a confidential VM. Numbers of 8 bytes are little-endian, as in the quote."""

    mrtd: bytes  # 48 bytes: the initial memory (the firmware)
    rtmrs: tuple[bytes, bytes, bytes, bytes]  # 48 bytes each: measured during the boot
    mr_config_id: bytes  # 48 bytes; this and the next two: set by the host at the start
    mr_owner: bytes
    mr_owner_config: bytes
    mr_seam: bytes  # 48 bytes: the TDX module
    attributes: bytes  # 8 bytes
    xfam: bytes  # 8 bytes
    mr_service_td: bytes  # 48 bytes; empty in a quote without this field

    @property
    def identity(self) -> TdxIdentity:
        """The identity of exactly this VM, with every field."""
        values = (
            self.mrtd,
            *self.rtmrs,
            self.mr_config_id,
            self.mr_owner,
            self.mr_owner_config,
            self.mr_seam,
            self.attributes,
            self.xfam,
        )
        return TdxIdentity(*(value.hex() for value in values))

    @property
    def records(self) -> dict[str, Any]:
        """The measured values of this VM, by name of the field in ``Measured`` (for events)."""
        return {"mrtd": self.mrtd, "rtmrs": self.rtmrs}

    @property
    def boot_is_measured(self) -> bool:
        """True if the boot measured kernel and kernel command line; else the VM could have any."""
        return all(map(any, self.rtmrs[1:3]))

    @property
    def service(self) -> bytes:
        """The measurement of a service VM that could read or move this VM; zeros or empty: none."""
        return self.mr_service_td

    def require_sound(self) -> None:
        """Raise ``QuoteRefusedError`` for a VM that must never be trusted.

        Reasons are debug, profiling, migration, reserved bits, and a service VM (service TD) with
        access to this VM. No quote states whether a VM is partitioned.
        """
        reason = QuoteProblem.TD_ATTRIBUTES
        fault = attributes_fault(self.attributes) or xfam_fault(self.xfam)
        if any(self.mr_service_td):
            reason = QuoteProblem.SERVICE_TD
            fault = "a service TD is bound to the VM, and could read or move the VM"
        if fault:
            raise QuoteRefusedError(
                reason,
                f"the quote does not verify: no policy can trust this confidential VM: {fault}",
                hint="start the VM with SEPT_VE_DISABLE, and without debug, profiling, migration"
                " and service TDs",
            )
