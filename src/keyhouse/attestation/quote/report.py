"""The contents of a quote: its parts, the report of the processor, and the verdict about it.

The parts and the report are unverified. The verdict is a report after the verification.
"""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.base.hex_repr import Readable
from keyhouse.wire.kinds import VM_KINDS
from keyhouse.wire.kinds.identity import FieldMismatch, VmIdentity
from keyhouse.wire.tcb_status import TcbStatus

MAX_QUOTE: Final = 65_536
"""Maximum length in bytes of a quote. Real quotes have about 5,000."""


class Tee(StrEnum):
    """The kind of environment that made the quote."""

    SGX = "sgx"
    TDX = "tdx"
    SNP = "snp"

    @property
    def in_words(self) -> str:
        """The kind of environment as text for people."""
        return f"a confidential VM ({self.upper()})" if self.is_vm else "an SGX enclave"

    @property
    def is_vm(self) -> bool:
        """True if the quote is of a confidential VM, False if of an enclave."""
        return self.upper() in VM_KINDS

    @property
    def states_tcb(self) -> bool:
        """True if the vendor states a TCB status; else a package states required versions."""
        return not self.is_vm or VM_KINDS[self.upper()].STATES_TCB


class QuoteForm(msgspec.Struct, frozen=True):
    """A whole quote, split along its lengths. Nothing is verified."""

    raw: bytes  # without the transport header, of exact length
    tee: Tee
    chain: bytes  # the certificates beside its report, in the form of its kind


def malformed(problem: str) -> QuoteRefusedError:
    """Return the refusal of a malformed quote; ``problem`` states the fault."""
    return QuoteRefusedError(QuoteProblem.MALFORMED, f"the quote is malformed: {problem}")


class Measured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of a workload and its platform, for events. Journals store this type.

    An empty field does not apply to this kind of quote. Fields may be added, but never renamed.
    ``values`` is for later kinds of evidence.
    """

    platform: bytes = b""  # PPID, 16 bytes; AMD: CHIP_ID, 64 bytes
    mrenclave: bytes = b""
    mrsigner: bytes = b""
    tcb_status: str = ""
    mrtd: bytes = b""  # of a confidential VM; an enclave has mrenclave and mrsigner
    rtmrs: tuple[bytes, ...] = ()  # RTMR0 to RTMR3
    measurement: bytes = b""  # of a confidential VM of AMD
    values: tuple[tuple[str, bytes], ...] = ()  # of any other kind: by field of its identity

    def in_hex(self) -> dict[str, Any]:
        """Return the fields in the form for answers, with bytes in lower-case hex."""
        return {
            "platform": self.platform.hex(),
            "unique_id": self.mrenclave.hex(),
            "signer_id": self.mrsigner.hex(),
            "tcb_status": self.tcb_status,
            "mrtd": self.mrtd.hex(),
            "rtmrs": tuple(register.hex() for register in self.rtmrs),
            "measurement": self.measurement.hex(),
            "values": tuple((name, value.hex()) for name, value in self.values),
        }


class VmMeasurements(Readable, frozen=True, kw_only=True):
    """The measurements of a confidential VM. Each kind of VM has a subclass."""

    @property
    def identity(self) -> VmIdentity:
        """The identity of exactly this VM, with every field."""
        raise NotImplementedError

    @property
    def records(self) -> dict[str, Any]:
        """The measured values of this VM, by the field of the event's ``Measured``."""
        raise NotImplementedError

    @property
    def boot_is_measured(self) -> bool:
        """True if the boot measured kernel and kernel command line; else the VM could have any."""
        return True

    @property
    def service(self) -> bytes:
        """The measurement of a service VM that could read or move this VM; empty if none can be."""
        return b""

    def differences(self, wanted: VmIdentity) -> Iterator[FieldMismatch]:
        """Yield each field in which this VM violates ``wanted``, an identity of its kind of VM."""
        return wanted.differences(self.identity)

    def require_sound(self) -> None:
        """Raise ``QuoteRefusedError`` for a VM that must never be trusted."""
        raise NotImplementedError


class Report(Readable, frozen=True):
    """The values of a report for comparison with identities.

    For a confidential VM, the four values of SGX (``mrenclave`` to ``isvsvn``) are empty or 0, and
    ``measurements`` is set.
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


class Freshness(msgspec.Struct, frozen=True):
    """The age of the collateral. A caller can remember the age, and refuse older collateral later.

    This helps against a rewound clock. Times are UTC; ``issued`` is the newest issue date and
    ``expires`` the earliest end among the parts of the collateral. For AMD only the revocation list
    of the root has a number, and the other two numbers are 0.
    """

    tcb_evaluation_number: int
    pck_crl_number: int
    root_crl_number: int
    issued: datetime
    expires: datetime


class Verdict(Report, frozen=True, kw_only=True):
    """A true report, after verification. An appraisal has to decide whether its code is accepted.

    ``debug`` is always False, because the verifier refuses debug quotes. AMD states no TCB status,
    advisories or date; a package states the required versions instead.
    """

    tee: Tee
    tcb_status: TcbStatus | None  # None: the vendor states none
    advisories: tuple[str, ...]  # INTEL-SA-00615
    tcb_date: datetime | None  # None: the vendor states none
    fmspc: bytes  # 6 bytes: the platform family; AMD: empty
    ppid: bytes  # 16 bytes: this platform; AMD: CHIP_ID, 64 bytes
    freshness: Freshness

    @property
    def measured(self) -> Measured:
        """The measurements in the quote, with platform and TCB status, for events and answers."""
        status = self.tcb_status or ""
        return msgspec.structs.replace(super().measured, platform=self.ppid, tcb_status=status)


def tee_of(wanted: VmIdentity | None) -> Tee:
    """Return the kind of environment of the identity ``wanted``; None means an enclave."""
    return Tee.SGX if wanted is None else Tee(wanted.FIELD.lower())
