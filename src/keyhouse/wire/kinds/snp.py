"""The identity of a confidential VM on AMD SEV-SNP: its fields, and values that are never accepted.

Manifests, attestation files and the verifier share it. Values are hex of the bytes in the order of
the report, whose numbers are little-endian. Source: AMD, "SEV Secure Nested Paging Firmware ABI
Specification" (56860), "Guest Policy" and "TCB Version".
"""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.wire.json_decoder import UInt8, UInt32, nearest
from keyhouse.wire.kinds.identity import FROM_A_QUOTE, THAT_OF_A_QUOTE, VmIdentity

PRODUCTS: Final = ("Milan", "Genoa", "Turin")
"""The known lines of processors. Each has its own root and its own versions.

Bergamo and Siena belong to the line Genoa.
"""

SIGNING_KEYS: Final = ("VCEK", "VLEK")
"""The keys that sign reports: a key of the chip, or a key lent to a cloud provider."""

VMPLS: Final = range(4)
"""The privilege levels inside a VM; 0 is the highest."""


class SnpTcb(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Security versions (TCB) of the firmware of an AMD platform, each 0 to 255; None: not given.

    Only processors of the line Turin have ``fmc``.
    """

    bootloader: UInt8 | None = msgspec.field(default=None, name="Bootloader")
    tee: UInt8 | None = msgspec.field(default=None, name="TEE")
    snp: UInt8 | None = msgspec.field(default=None, name="SNP")
    microcode: UInt8 | None = msgspec.field(default=None, name="Microcode")
    fmc: UInt8 | None = msgspec.field(default=None, name="FMC")

    def __str__(self) -> str:
        """Return the given versions as text."""
        given: dict[str, int] = msgspec.to_builtins(self)
        return ", ".join(f"{name} {version}" for name, version in given.items())


_POLICY: Final = {
    16: "SMT",
    17: "always 1",
    18: "MIGRATE_MA",
    19: "DEBUG",
    20: "SINGLE_SOCKET",
    21: "CXL_ALLOW",
    22: "MEM_AES_256_XTS",
    23: "RAPL_DIS",
    24: "CIPHERTEXT_HIDING_DRAM",
    25: "PAGE_SWAP_DISABLE",
}
_ALWAYS: Final = 1 << 17  # guest policy, AMD's SEV-SNP ABI: always 1
_MIGRATE: Final = 1 << 18  # guest policy: migration agents
_DEBUG: Final = 1 << 19  # guest policy: debugging
_ABI_VERSION: Final = 0xFFFF  # guest policy: the smallest permitted ABI version
_KNOWN: Final = _ABI_VERSION | sum(1 << bit for bit in _POLICY)


def policy_fault(policy: bytes) -> str:
    """Return why a confidential VM with this guest policy (8 bytes) is never trusted, or ""."""
    bits = int.from_bytes(policy, "little")
    if bits & _DEBUG:
        return "it can be debugged, so that its host can read its memory"
    if bits & _MIGRATE:
        return "it can be moved by a migration agent, which its report does not name"
    return "its guest policy has reserved bits" if bits & ~_KNOWN or not bits & _ALWAYS else ""


def is_debugged(policy: bytes) -> bool:
    """Return whether this guest policy (8 bytes) permits the host to debug the VM."""
    return bool(int.from_bytes(policy, "little") & _DEBUG)


class SnpIdentity(VmIdentity, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The required identity of a confidential VM. Hex fields must be equal; "": not compared.

    The platform belongs to ``product`` and has at least every version of ``minimum_tcb``. It signs
    with its VCEK, or with a VLEK if ``signing_key`` is ``VLEK``. The report was requested at
    exactly ``vmpl``. The VM's ID block states ``minimum_guest_svn`` or a higher version. With
    ``alias_check_complete``, the firmware has verified since the last reset that no memory cell has
    two addresses (BadRAM, AMD-SB-3015).
    """

    measurement: str = msgspec.field(default="", name="Measurement")
    host_data: str = msgspec.field(default="", name="HostData")
    id_key_digest: str = msgspec.field(default="", name="IDKeyDigest")
    author_key_digest: str = msgspec.field(default="", name="AuthorKeyDigest")
    family_id: str = msgspec.field(default="", name="FamilyID")
    image_id: str = msgspec.field(default="", name="ImageID")
    policy: str = msgspec.field(default="", name="Policy")
    product: str = msgspec.field(default="", name="Product")
    minimum_tcb: SnpTcb | None = msgspec.field(default=None, name="MinimumTCB")
    vmpl: UInt8 = msgspec.field(default=0, name="VMPL")
    signing_key: str = msgspec.field(default="VCEK", name="SigningKey")
    minimum_guest_svn: UInt32 = msgspec.field(default=0, name="MinimumGuestSVN")
    alias_check_complete: bool = msgspec.field(default=False, name="AliasCheckComplete")

    FIELD: ClassVar = "SNP"
    SIZES: ClassVar = {
        "Measurement": 48,
        "HostData": 32,
        "IDKeyDigest": 48,
        "AuthorKeyDigest": 48,
        "FamilyID": 16,
        "ImageID": 16,
        "Policy": 8,
    }
    FAULTS: ClassVar = {"Policy": policy_fault}
    BITS: ClassVar = {"Policy": _POLICY}
    SET_BY_THE_HOST: ClassVar = ("HostData",)
    STATES_TCB: ClassVar = False

    def problems(self) -> Iterator[Problem]:
        """Yield each missing or invalid field. An identity with a problem admits no VM."""
        yield from super().problems()
        if not self.product:
            yield Problem("Product", "is missing", f"write one of {', '.join(PRODUCTS)}")
        elif self.product not in PRODUCTS:
            hint = nearest(self.product, PRODUCTS)
            yield Problem("Product", "is not a known line of processors", hint)
        if self.vmpl not in VMPLS:
            yield Problem("VMPL", "is not 0, 1, 2 or 3", THAT_OF_A_QUOTE)
        if self.signing_key not in SIGNING_KEYS:
            yield Problem("SigningKey", "is neither VCEK nor VLEK", THAT_OF_A_QUOTE)
        yield from _problems_of_floor(self.minimum_tcb, self.product)

    def warnings(self) -> Iterator[Problem]:
        """Yield warnings: fields that leave a choice to the host, or that anybody can claim."""
        if not self.policy:
            problem = "is not given, so the host chooses the policy, even with SMT and an old ABI"
            yield Problem("Policy", problem, FROM_A_QUOTE)
        yield from super().warnings()
        if self.vmpl:
            problem = "is not 0: software at higher privilege levels in the VM is trusted as well"
            yield Problem("VMPL", problem, "check that Measurement covers that software")
        if (self.id_key_digest or self.author_key_digest).strip("0"):
            return
        if (self.family_id or self.image_id).strip("0"):
            problem = "gives FamilyID or ImageID without IDKeyDigest, so anybody can claim them"
            yield Problem("", problem, "write IDKeyDigest")
        if self.minimum_guest_svn:
            problem = "can be claimed by anybody, because IDKeyDigest is not given"
            yield Problem("MinimumGuestSVN", problem, "write IDKeyDigest")


def _problems_of_floor(floor: SnpTcb | None, product: str) -> Iterator[Problem]:
    if floor is None:
        problem = "is missing: any old firmware with known faults would be admitted"
        yield Problem("MinimumTCB", problem, THAT_OF_A_QUOTE)
        return
    is_turin = product == "Turin"
    for each in msgspec.structs.fields(floor):
        field, value = f"MinimumTCB.{each.encode_name}", getattr(floor, each.name)
        if value is None and (each.name != "fmc" or is_turin):
            yield Problem(field, "is missing", THAT_OF_A_QUOTE)
        elif value is not None and each.name == "fmc" and not is_turin:
            problem = "exists only on processors of the line Turin"
            yield Problem(field, problem, 'remove the field, or write "Product": "Turin"')


def below_floor(tcb: SnpTcb, floor: SnpTcb) -> str:
    """Return the names of the versions that are lower in ``tcb`` than in ``floor``, as text.

    A version that ``tcb`` lacks counts as lower. The result is "" if no version is lower.
    """
    lower = []
    for each in msgspec.structs.fields(floor):
        least, has = getattr(floor, each.name), getattr(tcb, each.name)
        if least is not None and (has is None or has < least):
            lower.append(each.encode_name)
    return ", ".join(lower)
