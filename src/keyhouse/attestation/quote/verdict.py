"""The verdict: the statements of a verified quote."""

from datetime import datetime

import msgspec

from keyhouse.attestation.quote.form import Tee
from keyhouse.attestation.quote.measured import Measured
from keyhouse.attestation.quote.report import Report
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.tcb_status import TcbStatus


class Freshness(msgspec.Struct, frozen=True):
    """The age of the collateral. A caller can remember the age, and refuse older collateral later.

    This helps against a rewound clock. Times are UTC; ``issued`` is the newest issue date and
    ``expires`` the earliest end among the parts of the collateral. For AMD only the list of the
    root has a number, and the other two numbers are 0.
    """

    tcb_evaluation_number: int
    pck_crl_number: int
    root_crl_number: int
    issued: datetime
    expires: datetime


class Verdict(Report, frozen=True, kw_only=True):
    """A true report, after verification. An appraisal still has to decide whether it suffices.

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
        """The contents of the evidence, for events and answers."""
        status = self.tcb_status or ""
        return msgspec.structs.replace(super().measured, platform=self.ppid, tcb_status=status)


def tee_of(wanted: VmIdentity | None) -> Tee:
    """Return the kind of environment of the identity ``wanted``; None means an enclave."""
    return Tee.SGX if wanted is None else Tee(wanted.FIELD.lower())
