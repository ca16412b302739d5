"""The identity of a confidential VM in a field with the name of its kind, such as ``TDX``."""

from typing import Any

import msgspec

from keyhouse.wire.kinds import VM_KINDS
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse.wire.kinds.tdx import TdxIdentity


class NamedVm(msgspec.Struct, frozen=True, kw_only=True):
    """A field for the identity of each kind of confidential VM, in the order of ``VM_KINDS``."""

    tdx: TdxIdentity | None = msgspec.field(default=None, name="TDX")
    snp: SnpIdentity | None = msgspec.field(default=None, name="SNP")

    @property
    def vms(self) -> tuple[VmIdentity, ...]:
        """Every given identity of a confidential VM; at most one in a checked manifest."""
        return tuple(filter(None, (getattr(self, field.lower()) for field in VM_KINDS)))

    def vms_in_lower_case(self) -> dict[str, Any]:
        """Return every given identity in lower case, by the name of its attribute."""
        return {each.FIELD.lower(): each.in_lower_case() for each in self.vms}

    @property
    def vm(self) -> VmIdentity | None:
        """The identity of the confidential VM; None: the package describes an enclave."""
        return self.vms[-1] if self.vms else None
