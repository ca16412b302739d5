"""Confidential VMs on the simulated machine: the real platforms with a simulated configfs-tsm."""

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from keyhouse.attestation import Platform
from keyhouse.attestation.platforms.tsm import ReportFolders, SnpPlatform, TdxPlatform, TsmPlatform
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation.parameters import QuotedTd
from keyhouse_simulation.tsm import TsmReports


class _Simulated(TsmPlatform):
    """A confidential VM on ``machine``, with quotes from ``quote``.

    Each object has a new configfs-tsm directory in the directory for temporary files.
    """

    def __init__(self, quote: Callable[[bytes], bytes], machine: Platform) -> None:
        self._machine = machine
        name = f"keyhouse-simulated-tsm-{os.getpid()}-{secrets.token_hex(8)}"
        tsm = TsmReports(quote, self.provider + b"\n")
        super().__init__(Path(tempfile.gettempdir()) / name, ReportFolders(tsm.make, tsm.remove))

    @property
    def kind(self) -> str:
        """``simulation``."""
        return "simulation"

    @property
    def root_ca(self) -> bytes:
        """The root of the simulated Intel, DER."""
        return self._machine.root_ca

    @property
    def amd_roots(self) -> Mapping[str, bytes]:
        """The root of the simulated AMD, DER."""
        return self._machine.amd_roots


class SimulatedVm(_Simulated, TdxPlatform):
    """A simulated confidential VM of TDX."""


class SimulatedSnpVm(_Simulated, SnpPlatform):
    """A simulated confidential VM of SEV-SNP."""


def vm_named(identity: TdxIdentity, other: QuotedTd) -> QuotedTd:
    """Return the VM with the fields of ``identity``. Missing fields come from ``other``."""
    rtmrs = (identity.rtmr0, identity.rtmr1, identity.rtmr2, identity.rtmr3)
    named = {
        "mrtd": identity.mrtd,
        "mrconfigid": identity.mr_config_id,
        "mrowner": identity.mr_owner,
        "mrownerconfig": identity.mr_owner_config,
        "mrseam": identity.mr_seam,
        "td_attributes": identity.td_attributes,
        "xfam": identity.xfam,
    }
    given = {field: bytes.fromhex(value) for field, value in named.items() if value}
    registers = (
        bytes.fromhex(value) or before for value, before in zip(rtmrs, other.rtmrs, strict=True)
    )
    return msgspec.structs.replace(other, **given, rtmrs=tuple(registers))
