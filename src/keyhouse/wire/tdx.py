"""Who a confidential VM is (Intel TDX): the fields of its identity, and which values never pass.

Manifests, attestation files and the verifier share it. Values are hex of the bytes in the order of
the quote, whose numbers are little-endian. Sources: Intel's quote format, "TD Quote Body"; Intel's
TDX Module Base Architecture Specification, "ATTRIBUTES" and "XFAM".
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from keyhouse.base.errors import Problem

__all__ = [
    "SIZES",
    "TdxIdentity",
    "attributes_fault",
    "lower_case",
    "problems_of_identity",
    "xfam_fault",
]


class TdxIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a confidential VM has to be: each field equal; "" means that it is not compared.

    Hex in any case of letters.
    """

    mrtd: str = msgspec.field(default="", name="MRTD")
    rtmr0: str = msgspec.field(default="", name="RTMR0")
    rtmr1: str = msgspec.field(default="", name="RTMR1")
    rtmr2: str = msgspec.field(default="", name="RTMR2")
    rtmr3: str = msgspec.field(default="", name="RTMR3")
    mr_config_id: str = msgspec.field(default="", name="MRConfigID")
    mr_owner: str = msgspec.field(default="", name="MROwner")
    mr_owner_config: str = msgspec.field(default="", name="MROwnerConfig")
    mr_seam: str = msgspec.field(default="", name="MRSeam")
    td_attributes: str = msgspec.field(default="", name="TDAttributes")
    xfam: str = msgspec.field(default="", name="XFAM")


SIZES: Final = dict.fromkeys(TdxIdentity.__struct_encode_fields__, 48) | {
    "TDAttributes": 8,
    "XFAM": 8,
}
"""Bytes of each field, by its name in a manifest."""

_HEX: Final = re.compile(r"[0-9a-fA-F]*", re.ASCII)

# ATTRIBUTES. Bits 0 to 7 make a VM one that must not be trusted: debug and profiling.
_UNTRUSTED: Final = 0xFF
_SEPT_VE_DISABLE: Final = 1 << 28
_MIGRATABLE: Final = 1 << 29
_HARMLESS: Final = sum(1 << bit for bit in (27, 30, 31, 62, 63))  # LASS, PKS, KL, TPA, PERFMON

# XFAM. x87 and SSE are always there; the others are those that a VM can be given.
_XFAM_ALWAYS: Final = 0b11
_XFAM_KNOWN: Final = sum(1 << bit for bit in (0, 1, 2, 5, 6, 7, 8, 9, 11, 12, 14, 15, 17, 18, 19))


def lower_case(identity: TdxIdentity) -> TdxIdentity:
    """Return ``identity`` in the one spelling that the rest compares and shows."""
    return TdxIdentity(*(value.lower() for value in msgspec.structs.astuple(identity)))


def problems_of_identity(identity: TdxIdentity) -> Iterator[Problem]:
    """Yield why ``identity`` names no confidential VM that could be admitted, by field."""
    if not identity.mrtd:
        yield Problem("MRTD", "is missing", "keyhouse package-info prints that of a quote")
    given = zip(SIZES.items(), msgspec.structs.astuple(identity), strict=True)
    for (field, size), value in given:
        digits = size * 2
        if value and not (len(value) == digits and _HEX.fullmatch(value)):
            yield Problem(field, f"is not {digits} hex digits", "without 0x or spaces")
        elif value and (check := _CHECKED.get(field)) and (fault := check(bytes.fromhex(value))):
            hint = "a confidential VM with this value is always refused"
            yield Problem(field, f"admits nobody: {fault}", hint)


def attributes_fault(attributes: bytes) -> str:
    """Return why no confidential VM with these TD attributes (8 bytes) is trusted, or ""."""
    bits = int.from_bytes(attributes, "little")
    if bits & _UNTRUSTED:
        return "it can be debugged or profiled, so that its host can read its memory"
    if bits & _MIGRATABLE:
        return "it can be moved to another platform, by a service that its quote does not name"
    if bits & ~(_SEPT_VE_DISABLE | _HARMLESS):
        return "it has reserved TD attributes"
    if not bits & _SEPT_VE_DISABLE:
        return "its host can interrupt it at any memory access (SEPT_VE_DISABLE is 0)"
    return ""


def xfam_fault(xfam: bytes) -> str:
    """Return why no confidential VM can have this XFAM (8 bytes), or ""."""
    bits = int.from_bytes(xfam, "little")
    if bits & _XFAM_ALWAYS != _XFAM_ALWAYS:
        return "its XFAM lacks a feature that every processor has"
    return "its XFAM has reserved bits" if bits & ~_XFAM_KNOWN else ""


_CHECKED: Final = {"TDAttributes": attributes_fault, "XFAM": xfam_fault}
