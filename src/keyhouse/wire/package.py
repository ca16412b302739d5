"""The requirements of a manifest's package on a workload and its platform."""

import msgspec

from keyhouse.wire.json_decoder import UInt64
from keyhouse.wire.kinds.named_vm import NamedVm
from keyhouse.wire.secret_types import manifest_name


class Package(NamedVm, frozen=True, rename=manifest_name, forbid_unknown_fields=True):
    """An allowed enclave program or confidential VM (``docs/reference/manifest.md``, "Sections").

    Identifiers are hex; "", ``None`` and () mean not given. A package has either the identity of a
    confidential VM, or the fields of an enclave.
    """

    debug: bool = False
    unique_id: str = msgspec.field(default="", name="UniqueID")  # equals MRENCLAVE
    signer_id: str = msgspec.field(default="", name="SignerID")  # equals MRSIGNER
    product_id: UInt64 | None = msgspec.field(default=None, name="ProductID")  # 0 is a value
    security_version: UInt64 | None = None  # minimum
    accepted_tcb_statuses: tuple[str, ...] = ()
    accepted_advisories: tuple[str, ...] = ()
