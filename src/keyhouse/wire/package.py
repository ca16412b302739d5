"""What a package of a manifest asks of a workload and its platform."""

import msgspec

from keyhouse.wire.json_decoder import UInt64
from keyhouse.wire.secret_types import manifest_name
from keyhouse.wire.snp import SnpIdentity
from keyhouse.wire.tdx import TdxIdentity
from keyhouse.wire.vm_identity import VmIdentity


class Package(msgspec.Struct, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """An enclave program or confidential VM that is allowed (manifest format, "Packages").

    Identifiers are hex; "", ``None`` and () mean: not given. With ``tdx`` or ``snp``, never both,
    there is nothing that names an enclave.
    """

    debug: bool = False
    unique_id: str = msgspec.field(default="", name="UniqueID")  # MRENCLAVE, equal
    signer_id: str = msgspec.field(default="", name="SignerID")  # MRSIGNER, equal
    product_id: UInt64 | None = msgspec.field(default=None, name="ProductID")  # 0 is a value
    security_version: UInt64 | None = None  # at least
    accepted_tcb_statuses: tuple[str, ...] = ()
    accepted_advisories: tuple[str, ...] = ()
    tdx: TdxIdentity | None = msgspec.field(default=None, name="TDX")
    snp: SnpIdentity | None = msgspec.field(default=None, name="SNP")

    @property
    def vm(self) -> VmIdentity | None:
        """The confidential VM that it names, if it names one."""
        return self.tdx if self.snp is None else self.snp
