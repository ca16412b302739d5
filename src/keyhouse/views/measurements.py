"""Rows with the identity of a confidential VM, in the names of a manifest."""

import json

import msgspec

from keyhouse.wire.kinds import VM_KINDS
from keyhouse.wire.kinds.identity import VmIdentity


def rows_of_vm(identity: VmIdentity) -> dict[str, str]:
    """Return name and value of each field in ``identity``.

    The names of set bits follow the value of a bit field, in brackets.
    """
    values: dict[str, str] = {
        field: ", ".join(f"{name} {version}" for name, version in value.items())
        if isinstance(value, dict)
        else (value if isinstance(value, str) else json.dumps(value))
        for field, value in msgspec.to_builtins(identity).items()
    }
    words = {field: bits_in_words(field, value) for field, value in values.items()}
    return {
        field: f"{value}  ({words[field]})" if words[field] else value
        for field, value in values.items()
    }


def bits_in_words(field: str, value: str) -> str:
    """Return the names of the set bits in ``value``, the little-endian hex of the field ``field``.

    Returns "" for a field without named bits, and "none" if no bit is set.
    """
    named = (kind.BITS.get(field) for kind in VM_KINDS.values())
    names = next((each for each in named if each is not None), None)
    if names is None:
        return ""
    bits = int.from_bytes(bytes.fromhex(value), "little")
    shown = [f"ABI {bits >> 8 & 0xFF}.{bits & 0xFF}"] if field == "Policy" else []
    first = 16 if field == "Policy" else 0
    found = (bit for bit in range(first, bits.bit_length()) if bits >> bit & 1)
    return ", ".join([*shown, *(names.get(bit, f"reserved bit {bit}") for bit in found)]) or "none"
