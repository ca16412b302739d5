"""The identity of a confidential VM on Intel TDX: its fields, and values that are never accepted.

Manifests, attestation files and the verifier share it. Values are hex of the bytes in the order of
the quote, whose numbers are little-endian. Sources: Intel's quote format, "TD Quote Body"; Intel's
TDX Module Base Architecture Specification, "ATTRIBUTES" and "XFAM".
"""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.wire.kinds.identity import FROM_A_QUOTE, VmIdentity

_ATTRIBUTES: Final = {
    0: "DEBUG",
    4: "HGS_PLUS_PROF",
    5: "PERF_PROF",
    6: "PMT_PROF",
    27: "LASS",
    28: "SEPT_VE_DISABLE",
    29: "MIGRATABLE",
    30: "PKS",
    31: "KL",
    62: "TPA",
    63: "PERFMON",
}
_UNTRUSTED: Final = 0xFF  # with any of these eight bits, the host can read the VM's memory
_SEPT_VE_DISABLE: Final = 1 << 28  # TD attributes, Intel TDX module ABI
_MIGRATABLE: Final = 1 << 29  # TD attributes, Intel TDX module ABI
_HARMLESS: Final = sum(1 << bit for bit in (27, 28, 30, 31, 62, 63))

_XFAM: Final = {
    0: "x87",
    1: "SSE",
    2: "AVX",
    5: "AVX-512 masks",
    6: "AVX-512 upper halves",
    7: "AVX-512 registers",
    8: "PT",
    9: "PKRU",
    11: "CET of users",
    12: "CET of the kernel",
    14: "UINTR",
    15: "LBR",
    17: "AMX configuration",
    18: "AMX data",
    19: "APX",
}
_XFAM_ALWAYS: Final = 0b11  # x87 and SSE, which are always on
_XFAM_KNOWN: Final = sum(1 << bit for bit in _XFAM)
_REGISTERS: Final = "MRTD RTMR0 RTMR1 RTMR2 RTMR3 MRConfigID MROwner MROwnerConfig MRSeam"
_LEFT_OPEN: Final = {
    "RTMR0": "the host can give the VM other ACPI tables, whose code the kernel runs",
    "RTMR1": "any kernel is admitted",
    "RTMR2": "any kernel command line and initial RAM disk are admitted",
}


def attributes_fault(attributes: bytes) -> str:
    """Return why a confidential VM with these TD attributes (8 bytes) is never trusted, or ""."""
    bits = int.from_bytes(attributes, "little")
    if bits & _UNTRUSTED:
        return "it can be debugged or profiled, so that its host can read its memory"
    if bits & _MIGRATABLE:
        return "it can be moved to another platform, by a service that its quote does not name"
    if bits & ~_HARMLESS:
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


class TdxIdentity(VmIdentity, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The required identity of a confidential VM. Fields must be equal; "" means not compared.

    The values are hex in any case of letters.
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

    FIELD: ClassVar = "TDX"
    SIZES: ClassVar = dict.fromkeys(_REGISTERS.split(), 48) | {"TDAttributes": 8, "XFAM": 8}
    FAULTS: ClassVar = {"TDAttributes": attributes_fault, "XFAM": xfam_fault}
    BITS: ClassVar = {"TDAttributes": _ATTRIBUTES, "XFAM": _XFAM}
    SET_BY_THE_HOST: ClassVar = ("MRConfigID", "MROwner", "MROwnerConfig")

    def warnings(self) -> Iterator[Problem]:
        """Yield warnings of boot registers that admit any code, then those of ``VmIdentity``."""
        texts = self.texts()
        if not any(texts[register] for register in (*_LEFT_OPEN, "RTMR3")):
            problem = "names no RTMR: any kernel with any command line is admitted"
            yield Problem("", problem, FROM_A_QUOTE)
        else:
            for register, consequence in _LEFT_OPEN.items():
                if not texts[register]:
                    yield Problem(register, f"is not given: {consequence}", FROM_A_QUOTE)
                elif not texts[register].strip("0"):
                    problem = f"is all zeros, as if the boot measures nothing: then {consequence}"
                    yield Problem(register, problem, "use a firmware that measures the boot")
        yield from super().warnings()
