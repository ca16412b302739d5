"""The verdict: the statements of a verified quote."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from keyhouse.attestation.quote.form import Tee
from keyhouse.attestation.quote.report import Report
from keyhouse.attestation.quote.snp import snp_differences, snp_identity_of
from keyhouse.attestation.quote.td import identity_of, td_differences
from keyhouse.wire.exact_fields import Difference
from keyhouse.wire.tcb_status import TcbStatus
from keyhouse.wire.tdx import TdxIdentity
from keyhouse.wire.vm_identity import VmIdentity, kind_of_vm


class Freshness(msgspec.Struct, frozen=True):
    """The age of the collateral. A caller that remembers it can refuse older collateral later.

    This helps against a rewound clock. Times are UTC; ``issued`` is the newest issue date and
    ``expires`` the earliest end among the parts of the collateral. For SNP only the list of the
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
    tcb_status: TcbStatus | None  # None: SNP
    advisories: tuple[str, ...]  # INTEL-SA-00615
    tcb_date: datetime | None  # None: SNP
    fmspc: bytes  # 6 bytes: the platform family; SNP: empty
    ppid: bytes  # 16 bytes: this platform; SNP: CHIP_ID, 64 bytes
    freshness: Freshness

    @property
    def vm(self) -> VmIdentity | None:
        """The confidential VM with every field given; None for an enclave."""
        if self.snp is not None:
            return snp_identity_of(self.snp)
        return None if self.td is None else identity_of(self.td)

    def differences(self, wanted: VmIdentity) -> Iterator[Difference]:
        """Yield each field in which the confidential VM violates ``wanted``, in order.

        Raises ``ValueError`` for a VM of another vendor.
        """
        if isinstance(wanted, TdxIdentity) and self.td is not None:
            return td_differences(self.td, wanted)
        if not isinstance(wanted, TdxIdentity) and self.snp is not None:
            return snp_differences(self.snp, wanted)
        raise ValueError("a confidential VM of another kind")


def tee_of(wanted: VmIdentity | None) -> Tee:
    """Return the kind of environment of the identity ``wanted``; None means an enclave."""
    return Tee.SGX if wanted is None else Tee(kind_of_vm(wanted).lower())
