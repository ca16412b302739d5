"""The kinds of confidential VMs that a manifest can name. Each kind is one class in one file."""

from typing import Final

from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.kinds.snp import SnpIdentity
from keyhouse.wire.kinds.tdx import TdxIdentity

VM_KINDS: Final[dict[str, type[VmIdentity]]] = {
    each.FIELD: each for each in (TdxIdentity, SnpIdentity)
}
"""The identity of each kind, by its field in a package, in the order of these fields."""
