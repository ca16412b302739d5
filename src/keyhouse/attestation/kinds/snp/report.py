"""Reports of SEV-SNP: parsing, the identity of the confidential VM, and VMs that are never trusted.

Every byte of a report is known, or must be zero. Offsets and names follow AMD's "SEV Secure Nested
Paging Firmware ABI Specification" (56860), "ATTESTATION_REPORT Structure", for the versions 2, 3
and 5. Later additions by AMD are refused until they are known here.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.attestation.kinds.snp.form import SNP_REPORT, SNP_VERSIONS, read_table
from keyhouse.attestation.quote.report import QuoteForm, Report, Tee, VmMeasurements
from keyhouse.base.byte_reader import LayoutError
from keyhouse.wire.kinds.identity import FieldMismatch, VmIdentity
from keyhouse.wire.kinds.snp import (
    PRODUCTS,
    SIGNING_KEYS,
    SnpIdentity,
    SnpTcb,
    below_floor,
    is_debugged,
    policy_fault,
)

_HEX: Final = ("measurement", "host_data", "id_key_digest", "author_key_digest",
               "family_id", "image_id", "policy")  # fmt: skip

_SIGNED: Final = 0x2A0  # bytes before the signature, by AMD's SEV-SNP ABI
_HALF: Final = 72  # bytes of r and of s; the upper 24 are zero
_P384: Final = 48  # bytes of an element of P-384
_ECDSA_P384_SHA384: Final = 1  # the algorithm's number in AMD's SEV-SNP ABI
_PLATFORM_INFO: Final = 0b1011_1111  # the known bits, AMD's SEV-SNP ABI
_SET_BY_TURIN: Final = 0b0100_0000  # reserved in AMD's document, but set by Turin firmware
_ALIAS_CHECK_COMPLETE: Final = 0b0010_0000  # of PLATFORM_INFO; older firmware never sets it
_SIGNER_INFO: Final = 0b1_1111  # the known bits of the signer's field, AMD's SEV-SNP ABI
_HAS_AUTHOR: Final = 0b1  # bit AUTHOR_KEY_EN of the signer's field, AMD's SEV-SNP ABI

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
"""The line of processors by family and upper half of the model (CPUID)."""


class SnpMeasurements(VmMeasurements, frozen=True, kw_only=True):
    """The identity of a confidential VM, and the state of its platform. Numbers are little-endian.

    ``product`` is "" for an unverified report of version 2: only its certificates name the product.
    """

    measurement: bytes  # 48 bytes: the initial memory
    host_data: bytes  # 32 bytes, set by the host at its start
    id_key_digest: bytes  # 48 bytes; without an ID block, this and the next three are zeros
    author_key_digest: bytes  # 48 bytes
    family_id: bytes  # 16 bytes
    image_id: bytes  # 16 bytes
    guest_svn: int
    policy: bytes  # 8 bytes
    vmpl: int  # 0 to 3; 0xFFFFFFFF: the host requested the report
    signing_key: str  # VCEK or VLEK
    product: str  # Milan, Genoa or Turin
    chip_id: bytes  # 64 bytes; zeros if the platform hides it
    reported_tcb: SnpTcb  # the signing key was derived from this version
    committed_tcb: SnpTcb  # the platform cannot return to an older version
    current_tcb: SnpTcb
    launch_tcb: SnpTcb  # when the VM was started
    alias_check_complete: bool  # since the last reset, no memory cell has two addresses

    @property
    def identity(self) -> SnpIdentity:
        """The identity of exactly this VM. ``minimum_tcb``: the lowest versions in the report."""
        values = {name: getattr(self, name).hex() for name in _HEX}
        return SnpIdentity(
            **values,
            product=self.product,
            minimum_tcb=self._lowest(),
            vmpl=self.vmpl,
            signing_key=self.signing_key,
            minimum_guest_svn=self.guest_svn,
            alias_check_complete=self.alias_check_complete,
        )

    @property
    def records(self) -> dict[str, Any]:
        """The measured values of this VM, by the field of the event's ``Measured``."""
        return {"measurement": self.measurement}

    def differences(self, wanted: VmIdentity) -> Iterator[FieldMismatch]:
        """Yield each field in which this VM or its platform violates ``wanted``, in order.

        ``MinimumTCB`` applies to all versions in the report: the reported, committed and current
        versions, and the versions at the start of the VM.
        """
        yield from super().differences(wanted)
        if not isinstance(wanted, SnpIdentity):  # a caller compares kinds first
            raise TypeError(f"expected an SNP identity, got {type(wanted).__name__}")
        if self.product != wanted.product:
            yield FieldMismatch("Product", self.product or "unknown", wanted.product)
        if wanted.minimum_tcb is None:  # the check of manifests refuses such a package
            yield FieldMismatch("MinimumTCB", str(self.reported_tcb), "a minimum in the package")
        else:
            for which, versions in self._tcbs().items():
                if lower := below_floor(versions, wanted.minimum_tcb):
                    found = f"{versions} ({which}; too low: {lower})"
                    yield FieldMismatch("MinimumTCB", found, str(wanted.minimum_tcb))
                    break
        if self.vmpl != wanted.vmpl:
            yield FieldMismatch("VMPL", str(self.vmpl), str(wanted.vmpl))
        if self.signing_key != wanted.signing_key:
            yield FieldMismatch("SigningKey", self.signing_key, wanted.signing_key)
        if self.guest_svn < wanted.minimum_guest_svn:
            least = f"{wanted.minimum_guest_svn} or higher"
            yield FieldMismatch("MinimumGuestSVN", str(self.guest_svn), least)
        if wanted.alias_check_complete and not self.alias_check_complete:
            yield FieldMismatch("AliasCheckComplete", "false", "true")

    def require_sound(self) -> None:
        """Raise ``QuoteRefusedError`` for a VM whose guest policy can never be trusted."""
        fault = policy_fault(self.policy)
        if fault:
            raise QuoteRefusedError(
                QuoteProblem.GUEST_POLICY,
                f"the quote does not verify: no policy can trust this confidential VM: {fault}",
                hint="start the VM with a guest policy without debug and migration agents",
            )

    def _tcbs(self) -> dict[str, SnpTcb]:
        return {
            "reported": self.reported_tcb,
            "committed": self.committed_tcb,
            "current": self.current_tcb,
            "at the start of the VM": self.launch_tcb,
        }

    def _lowest(self) -> SnpTcb:
        """Return, for each part of the firmware, the lowest version in the report."""
        columns = zip(*map(astuple, self._tcbs().values()), strict=True)
        return SnpTcb(*(None if None in column else min(column) for column in columns))


class SnpReport(msgspec.Struct, frozen=True):
    """The fields of a report of SEV-SNP; no signature is verified."""

    version: int
    signed: bytes  # the signed bytes
    r: int
    s: int
    report_data: bytes  # 64 bytes
    reported_tcb: bytes  # this and the next three: 8 bytes
    committed_tcb: bytes
    current_tcb: bytes
    launch_tcb: bytes
    measured: SnpMeasurements


def read_snp_report(raw: bytes, product: str = "") -> SnpReport:
    """Return the report in ``raw``, 1,184 bytes.

    ``product``: the line of processors according to the certificates; "": not known yet. Then the
    product in the report counts, which a report of version 2 does not state. Raises
    ``LayoutError``.
    """
    if len(raw) != SNP_REPORT:
        raise LayoutError(f"the report has {len(raw)} bytes, must have {SNP_REPORT}")
    version = _number(raw, 0, 4)
    if version not in SNP_VERSIONS:
        raise LayoutError("the report has an unknown version")
    for begin, end in (*_RESERVED, *_RESERVED_UNTIL[version]):
        if any(raw[begin:end]):
            raise LayoutError("the report has reserved bytes that are not zero")
    if _number(raw, 0x34, 4) != _ECDSA_P384_SHA384:
        raise LayoutError("the report is not signed with ECDSA P-384 and SHA-384")
    stated = _product(raw, version)
    if product and stated and product != stated:
        raise LayoutError(
            f"the report is of the line of processors {stated}, its certificates are of {product}"
        )
    known = _PLATFORM_INFO | (_SET_BY_TURIN if stated == "Turin" else 0)
    if _number(raw, 0x40, 8) & ~known or _number(raw, 0x48, 4) & ~_SIGNER_INFO:
        raise LayoutError("the report has reserved bits that are not zero")
    if any(raw[0x110:0x140]) and not raw[0x48] & _HAS_AUTHOR:
        raise LayoutError(
            "the report has the digest of an author's key, but states that there is no such key"
        )
    r, s = _signature(raw[_SIGNED:])
    tcbs = (raw[0x180:0x188], raw[0x1E0:0x1E8], raw[0x38:0x40], raw[0x1F0:0x1F8])
    measured = _measured(raw, product or stated, tcbs)
    return SnpReport(version, raw[:_SIGNED], r, s, raw[0x50:0x90], *tcbs, measured)


def read_snp_form(raw: bytes) -> QuoteForm:
    """Return the parts of a raw quote: its report, and the certificates beside it."""
    report, table = raw[:SNP_REPORT], raw[SNP_REPORT:]
    read_snp_report(report)
    read_table(table)
    return QuoteForm(raw, Tee.SNP, table)


def read_snp_claims(form: QuoteForm) -> Report:
    """Return the values of the SEV-SNP report in ``form``. Verify no signature."""
    report = read_snp_report(form.raw[:SNP_REPORT])
    debug = is_debugged(report.measured.policy)
    return Report(report.report_data, debug=debug, measurements=report.measured)


def tcb_versions(raw: bytes, product: str) -> SnpTcb:
    """Return the firmware versions in ``raw``, the 8 bytes of a TCB version.

    The layout depends on the line of processors, ``product``. Raises ``LayoutError``.
    """
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
        alias_check_complete=bool(_number(raw, 0x40, 8) & _ALIAS_CHECK_COMPLETE),
    )


def _signing_key(code: int) -> str:
    if code >= len(SIGNING_KEYS):
        raise LayoutError("the report states no signing key of AMD, or an unknown key")
    return SIGNING_KEYS[code]


def _product(raw: bytes, version: int) -> str:
    if version == SNP_VERSIONS[0]:
        return ""
    found = _FAMILIES.get((raw[0x188], raw[0x189] >> 4), "")
    if found not in PRODUCTS:
        raise LayoutError("the report states an unknown line of processors")
    return found


def _signature(raw: bytes) -> tuple[int, int]:
    r, s, rest = raw[:_HALF], raw[_HALF : 2 * _HALF], raw[2 * _HALF :]
    if any(rest) or any(r[_P384:]) or any(s[_P384:]):
        raise LayoutError("the signature of the report has reserved bytes that are not zero")
    return int.from_bytes(r, "little"), int.from_bytes(s, "little")


def _number(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")
