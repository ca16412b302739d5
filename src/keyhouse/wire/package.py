"""The requirements of a manifest's package on a workload and its platform."""

import msgspec

from keyhouse.wire.json_decoder import UInt64
from keyhouse.wire.secret_types import manifest_name
from keyhouse.wire.snp import SnpIdentity
from keyhouse.wire.tdx import TdxIdentity
from keyhouse.wire.vm_identity import VmIdentity


class Package(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """An allowed enclave program or confidential VM (manifest format, "Packages").

    Identifiers are hex; "", ``None`` and () mean not given. A package has ``tdx``, ``snp`` or
    fields of an enclave, never two of them.
    """

    debug: bool = False
    unique_id: str = msgspec.field(default="", name="UniqueID")  # equals MRENCLAVE
    signer_id: str = msgspec.field(default="", name="SignerID")  # equals MRSIGNER
    product_id: UInt64 | None = msgspec.field(default=None, name="ProductID")  # 0 is a value
    security_version: UInt64 | None = None  # minimum
    accepted_tcb_statuses: tuple[str, ...] = ()
    accepted_advisories: tuple[str, ...] = ()
    tdx: TdxIdentity | None = msgspec.field(default=None, name="TDX")
    snp: SnpIdentity | None = msgspec.field(default=None, name="SNP")

    @property
    def vm(self) -> VmIdentity | None:
        """The confidential VM of this package, or None for an enclave."""
        return self.tdx if self.snp is None else self.snp
