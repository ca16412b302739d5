"""Reads what the quote library says it has verified."""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from keyhouse.wire.tcb_status import TcbStatus

_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
Octets = tuple[_Byte, ...]


# The platform is up to date, but the confidential VM was started before it was: it is old itself.
_RELAUNCH: Final = {
    "TDRelaunchAdvised": TcbStatus.OUT_OF_DATE,
    "TDRelaunchAdvisedConfigurationNeeded": TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
}


class TcbClaims(msgspec.Struct, kw_only=True):
    """The merged state of platform, quoting enclave and (TDX) module."""

    said: str = msgspec.field(name="status")
    advisory_ids: tuple[str, ...]
    eval_data_number: int

    def __post_init__(self) -> None:
        _ = self.status  # an unknown one is an error here, where claims are read

    @property
    def status(self) -> TcbStatus:
        """What ``said`` means in the words of manifests."""
        return _RELAUNCH.get(self.said) or TcbStatus(self.said)


class PckClaims(msgspec.Struct):
    """The SGX extension of the verified PCK certificate."""

    ppid: Octets
    pce_id: Octets
    fmspc: Octets


class TcbLevel(msgspec.Struct):
    """The level of the TCB info that matched."""

    tcb_date: datetime = msgspec.field(name="tcbDate")


class PlatformClaims(msgspec.Struct):
    """The platform, without its quoting enclave."""

    tcb_level: TcbLevel
    pck: PckClaims
    pck_crl_num: int
    root_ca_crl_num: int


class Claims(msgspec.Struct):
    """The parts of ``dcap_qvl.QuoteClaims`` that are used. Dates are Unix seconds."""

    tcb: TcbClaims
    platform: PlatformClaims
    latest_issue_date: int
    earliest_expiration_date: int
    qe_iden_latest_issue_date: int
    qe_iden_earliest_expiration_date: int

    @property
    def issued(self) -> int:
        """The newest issue date among all parts of the collateral."""
        return max(self.latest_issue_date, self.qe_iden_latest_issue_date)

    @property
    def expires(self) -> int:
        """The earliest end among all parts of the collateral."""
        return min(self.earliest_expiration_date, self.qe_iden_earliest_expiration_date)


_decoder = msgspec.json.Decoder(Claims)


def read_claims(text: str) -> Claims:
    """Return the claims in the library's JSON. A new status or shape is an error, never a guess."""
    return _decoder.decode(text)
