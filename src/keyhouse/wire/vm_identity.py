"""The identity of a confidential VM of any vendor."""

from collections.abc import Iterator
from typing import Final, TypeVar

from keyhouse.base.errors import Problem
from keyhouse.wire import snp, tdx
from keyhouse.wire.exact_fields import in_lower_case
from keyhouse.wire.snp import SnpIdentity, problems_of_snp, snp_bits
from keyhouse.wire.tdx import TdxIdentity, problems_of_td, tdx_bits

T = TypeVar("T", TdxIdentity, SnpIdentity)

VmIdentity = TdxIdentity | SnpIdentity
"""The required identity of a confidential VM."""


_SIZES: Final = {TdxIdentity: tdx.SIZES, SnpIdentity: snp.SIZES}


def kind_of_vm(identity: VmIdentity) -> str:
    """Return the field of a package for such an identity: ``TDX`` or ``SNP``."""
    return "TDX" if isinstance(identity, TdxIdentity) else "SNP"


def lower_case(identity: T) -> T:
    """Return ``identity`` in lower case, the form of all comparisons."""
    return in_lower_case(identity, _SIZES[type(identity)])


def problems_of_identity(identity: VmIdentity) -> Iterator[Problem]:
    """Yield the reasons why ``identity`` admits no confidential VM, by field."""
    if isinstance(identity, TdxIdentity):
        yield from problems_of_td(identity)
    else:
        yield from problems_of_snp(identity)


def bits_in_words(field: str, value: str) -> str:
    """Return the meaning of the bits of a field, given in little-endian hex; "" without bits."""
    names = tdx_bits(field) or snp_bits(field)
    if names is None:
        return ""
    bits = int.from_bytes(bytes.fromhex(value), "little")
    shown = [f"ABI {bits >> 8 & 0xFF}.{bits & 0xFF}"] if field == "Policy" else []
    first = 16 if field == "Policy" else 0
    found = (bit for bit in range(first, bits.bit_length()) if bits >> bit & 1)
    return ", ".join([*shown, *(names.get(bit, f"reserved bit {bit}") for bit in found)]) or "none"
