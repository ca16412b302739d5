"""Rows with the identity of a confidential VM, with the field names of a manifest."""

import json

import msgspec

from keyhouse.wire.vm_identity import VmIdentity, bits_in_words


def rows_of_vm(identity: VmIdentity) -> dict[str, str]:
    """Return each given field; a field of bits also has its bits in words."""
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
