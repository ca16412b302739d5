"""The report inside a quote: the measurements of the processor."""

from collections.abc import Iterator
from typing import Any

from keyhouse.attestation.quote.measured import Measured
from keyhouse.base.hex_repr import Readable
from keyhouse.wire.kinds.identity import FieldMismatch, VmIdentity


class VmMeasurements(Readable, frozen=True, kw_only=True):
    """The measurements of a confidential VM. Each kind of VM has a subclass."""

    @property
    def identity(self) -> VmIdentity:
        """The identity of exactly this VM, with every field."""
        raise NotImplementedError

    @property
    def records(self) -> dict[str, Any]:
        """The values of this VM for fields of ``Measured``, by field."""
        raise NotImplementedError

    @property
    def boot_is_measured(self) -> bool:
        """False if kernel or command line were not measured at the boot: any could be there."""
        return True

    @property
    def service(self) -> bytes:
        """The measurement of a service VM that could read or move this VM; empty if none can be."""
        return b""

    def differences(self, wanted: VmIdentity) -> Iterator[FieldMismatch]:
        """Yield each field in which this VM violates ``wanted``, an identity of its kind."""
        return wanted.differences(self.identity)

    def require_sound(self) -> None:
        """Raise ``QuoteRefusedError`` for a VM that must never be trusted."""
        raise NotImplementedError


class Report(Readable, frozen=True):
    """The values of a report for comparison with identities.

    For a confidential VM, the four values of SGX are empty or 0, and ``measurements`` is set.
    """

    report_data: bytes  # 64 bytes
    debug: bool
    mrenclave: bytes = b""  # 32 bytes
    mrsigner: bytes = b""  # 32 bytes
    isvprodid: int = 0
    isvsvn: int = 0
    measurements: VmMeasurements | None = None

    @property
    def vm(self) -> VmIdentity | None:
        """The identity of the confidential VM, with every field; None for an enclave."""
        return None if self.measurements is None else self.measurements.identity

    @property
    def measured(self) -> Measured:
        """The measurements and the platform in the quote, for events and answers."""
        records = {} if self.measurements is None else self.measurements.records
        return Measured(mrenclave=self.mrenclave, mrsigner=self.mrsigner, **records)
