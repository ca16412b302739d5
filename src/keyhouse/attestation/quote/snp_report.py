"""Reads a report of SEV-SNP: every byte of it is known, or has to be zero.

Offsets and names are those of AMD's "SEV Secure Nested Paging Firmware ABI Specification" (56860),
"ATTESTATION_REPORT Structure", for the versions 2, 3 and 5. What AMD adds later is refused until it
is known here.
"""

from typing import Final

import msgspec

from keyhouse.attestation.quote.snp import SnpMeasurements
from keyhouse.attestation.quote.snp_form import SNP_REPORT, SNP_VERSIONS
from keyhouse.base.byte_reader import LayoutError
from keyhouse.wire.snp import PRODUCTS, SIGNING_KEYS, SnpTcb

_SIGNED: Final = 0x2A0
_HALF: Final = 72  # bytes of r and of s, of which the upper 24 are zero
_P384: Final = 48
_ECDSA_P384_SHA384: Final = 1
_PLATFORM_INFO: Final = 0b1011_1111  # the bits that are known
_SET_BY_TURIN: Final = 0b0100_0000  # reserved in AMD's document, but real firmware of Turin sets it
_SIGNER_INFO: Final = 0b1_1111
_HAS_AUTHOR: Final = 0b1

_RESERVED: Final = ((0x4C, 0x50), (0x1EB, 0x1EC), (0x1EF, 0x1F0), (0x208, _SIGNED))
_RESERVED_UNTIL: Final = {2: ((0x188, 0x1A0), (0x1F8, 0x208)),
                          3: ((0x18B, 0x1A0), (0x1F8, 0x208)),
                          5: ((0x18B, 0x1A0),)}  # fmt: skip
_FAMILIES: Final = {
    (0x19, 0x0): "Milan",
    (0x19, 0x1): "Genoa",
    (0x19, 0xA): "Genoa",  # Bergamo, Siena
    (0x1A, 0x0): "Turin",
    (0x1A, 0x1): "Turin",  # Turin Dense
}
"""Family and upper half of the model, by CPUID."""


class SnpReport(msgspec.Struct, frozen=True):
    """A report, not verified."""

    version: int
    signed: bytes  # what the signature covers
    r: int
    s: int
    report_data: bytes  # 64 bytes
    reported_tcb: bytes  # 8 bytes, as the next three
    committed_tcb: bytes
    current_tcb: bytes
    launch_tcb: bytes
    measured: SnpMeasurements


def read_snp_report(raw: bytes, product: str = "") -> SnpReport:
    """Return what is in a report of 1,184 bytes.

    ``product``: the line of processors by its certificates; without it what the report itself says,
    which is nothing in version 2. Raises ``LayoutError``.
    """
    if len(raw) != SNP_REPORT:
        raise LayoutError(f"the report has {len(raw)} bytes, must have {SNP_REPORT}")
    version = _number(raw, 0, 4)
    if version not in SNP_VERSIONS:
        raise LayoutError("the report is of an unknown version")
    for begin, end in (*_RESERVED, *_RESERVED_UNTIL[version]):
        if any(raw[begin:end]):
            raise LayoutError("the report has reserved bytes that are not zero")
    if _number(raw, 0x34, 4) != _ECDSA_P384_SHA384:
        raise LayoutError("the report is not signed with ECDSA P-384 and SHA-384")
    said = _product(raw, version)
    if product and said and product != said:
        raise LayoutError(f"the report is of {said}, its certificates of {product}")
    known = _PLATFORM_INFO | (_SET_BY_TURIN if said == "Turin" else 0)
    if _number(raw, 0x40, 8) & ~known or _number(raw, 0x48, 4) & ~_SIGNER_INFO:
        raise LayoutError("the report has reserved bits that are not zero")
    if any(raw[0x110:0x140]) and not raw[0x48] & _HAS_AUTHOR:
        raise LayoutError("the report has the digest of an author's key, and says that it has none")
    r, s = _signature(raw[_SIGNED:])
    tcbs = (raw[0x180:0x188], raw[0x1E0:0x1E8], raw[0x38:0x40], raw[0x1F0:0x1F8])
    measured = _measured(raw, product or said, tcbs)
    return SnpReport(version, raw[:_SIGNED], r, s, raw[0x50:0x90], *tcbs, measured)


def tcb_versions(raw: bytes, product: str) -> SnpTcb:
    """Return the versions in the 8 bytes of a TCB version. Raises ``LayoutError``."""
    if product == "Turin":
        fmc, bootloader, tee, snp, *reserved, microcode = raw
        found = SnpTcb(bootloader, tee, snp, microcode, fmc)
    else:
        bootloader, tee, *reserved, snp, microcode = raw
        found = SnpTcb(bootloader, tee, snp, microcode)
    if any(reserved):
        raise LayoutError("a TCB version has reserved bytes that are not zero")
    return found


def _measured(raw: bytes, product: str, tcbs: tuple[bytes, ...]) -> SnpMeasurements:
    reported, committed, current, launch = (tcb_versions(each, product) for each in tcbs)
    signer = _number(raw, 0x48, 4)
    return SnpMeasurements(
        measurement=raw[0x90:0xC0],
        host_data=raw[0xC0:0xE0],
        id_key_digest=raw[0xE0:0x110],
        author_key_digest=raw[0x110:0x140],
        family_id=raw[0x10:0x20],
        image_id=raw[0x20:0x30],
        guest_svn=_number(raw, 0x04, 4),
        policy=raw[0x08:0x10],
        vmpl=_number(raw, 0x30, 4),
        signing_key=_signing_key(signer >> 2),
        product=product,
        chip_id=raw[0x1A0:0x1E0],
        reported_tcb=reported,
        committed_tcb=committed,
        current_tcb=current,
        launch_tcb=launch,
    )


def _signing_key(code: int) -> str:
    if code >= len(SIGNING_KEYS):
        raise LayoutError("the report is signed by no key of AMD, or an unknown one")
    return SIGNING_KEYS[code]


def _product(raw: bytes, version: int) -> str:
    if version == SNP_VERSIONS[0]:
        return ""
    found = _FAMILIES.get((raw[0x188], raw[0x189] >> 4), "")
    if found not in PRODUCTS:
        raise LayoutError("the report is of an unknown line of processors")
    return found


def _signature(raw: bytes) -> tuple[int, int]:
    r, s, rest = raw[:_HALF], raw[_HALF : 2 * _HALF], raw[2 * _HALF :]
    if any(rest) or any(r[_P384:]) or any(s[_P384:]):
        raise LayoutError("the signature of the report has reserved bytes that are not zero")
    return int.from_bytes(r, "little"), int.from_bytes(s, "little")


def _number(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")
