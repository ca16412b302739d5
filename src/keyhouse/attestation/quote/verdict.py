"""What a verified quote says."""

from datetime import datetime
from enum import StrEnum

import msgspec

from keyhouse.attestation.quote.form import Tee
from keyhouse.attestation.quote.td import TdMeasurements
from keyhouse.base.readable import Readable

__all__ = ["Freshness", "TcbStatus", "Verdict"]


class TcbStatus(StrEnum):
    """The state of a platform's trusted computing base, in Intel's words.

    ``REVOKED`` appears in lists of accepted statuses only: the verifier refuses such a quote.
    """

    UP_TO_DATE = "UpToDate"
    OUT_OF_DATE = "OutOfDate"
    REVOKED = "Revoked"
    CONFIGURATION_NEEDED = "ConfigurationNeeded"
    OUT_OF_DATE_CONFIGURATION_NEEDED = "OutOfDateConfigurationNeeded"
    SW_HARDENING_NEEDED = "SWHardeningNeeded"
    CONFIGURATION_AND_SW_HARDENING_NEEDED = "ConfigurationAndSWHardeningNeeded"


class Freshness(msgspec.Struct, frozen=True):
    """How new the collateral is. If remembered, anything older can be refused (a rewound clock).

    Times are UTC; ``issued`` is the newest issue date and ``expires`` the earliest end among the
    parts of the collateral.
    """

    tcb_evaluation_number: int
    pck_crl_number: int
    root_crl_number: int
    issued: datetime
    expires: datetime


class Verdict(Readable, frozen=True):
    """What a quote says that verified. It is true; whether it is enough is not decided yet.

    For TDX the four SGX values are empty or 0 and ``td`` is set.
    """

    tee: Tee
    mrenclave: bytes  # 32 bytes
    mrsigner: bytes  # 32 bytes
    isvprodid: int
    isvsvn: int
    debug: bool  # always False: the verifier refuses debug quotes
    report_data: bytes  # 64 bytes
    tcb_status: TcbStatus
    advisories: tuple[str, ...]  # INTEL-SA-00615
    tcb_date: datetime
    fmspc: bytes  # 6 bytes: the kind of platform
    ppid: bytes  # 16 bytes: the very platform
    freshness: Freshness
    td: TdMeasurements | None = None
