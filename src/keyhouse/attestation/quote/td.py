"""The confidential VM of a TDX quote, and VMs that are never trusted."""

from collections.abc import Iterator

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.base.readable import Readable
from keyhouse.wire.exact_fields import Difference, differences
from keyhouse.wire.tdx import SIZES, TdxIdentity, attributes_fault, xfam_fault


class TdMeasurements(Readable, frozen=True, kw_only=True):
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


def identity_of(td: TdMeasurements) -> TdxIdentity:
    """Return the identity of exactly this VM, with every field."""
    values = (
        td.mrtd,
        *td.rtmrs,
        td.mr_config_id,
        td.mr_owner,
        td.mr_owner_config,
        td.mr_seam,
        td.attributes,
        td.xfam,
    )
    return TdxIdentity(*(value.hex() for value in values))


def td_differences(td: TdMeasurements, wanted: TdxIdentity) -> Iterator[Difference]:
    """Yield each given field of ``wanted`` with another value in this VM, in order."""
    yield from differences(identity_of(td), wanted, SIZES)


def require_sound(td: TdMeasurements) -> None:
    """Raise ``QuoteRefusedError`` for a VM that must never be trusted.

    Reasons are debug, profiling, migration, reserved bits, and a service TD bound to the VM. No
    quote states whether a VM is partitioned.
    """
    reason = QuoteProblem.TD_ATTRIBUTES
    fault = attributes_fault(td.attributes) or xfam_fault(td.xfam)
    if any(td.mr_service_td):
        reason = QuoteProblem.SERVICE_TD
        fault = "a service TD is bound to it, which could read or move it"
    if fault:
        raise QuoteRefusedError(
            reason,
            f"the quote does not verify: no such confidential VM is trusted: {fault}",
            hint="start it without debug, profiling, migration and service TDs",
        )
