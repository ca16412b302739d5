"""Write quotes: of enclaves (SGX, version 3) and of confidential VMs (TDX, versions 4 and 5).

::

    header | report | length | signature, attestation key, certification of the key

In version 5, the type and size of the report precede the report. The quoting enclave's report, its
signature and the chain are equal in every quote. They are computed once, so each quote costs one
signature.
"""

import hashlib
import struct

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from keyhouse_simulation.machine import Machine, pem, sign
from keyhouse_simulation.parameters import QuotedEnclave, QuotedTd, QuotingEnclave, TdxQuoteForm

_REPORT_DATA = 64
_CPU_SVN = bytes([2]) * 16
_PCE_SVN = 11
_INITIALISED_64_BIT = 0x05
_DEBUG = 0x02
_XFRM = 0xE7
_ECDSA_P256 = 2
_CHAIN_PEM = 5
_QE_REPORT_DATA = 6
_TDX = 0x81


class QuoteWriter:
    """The quoting enclave of a machine, for enclaves. Threads may share a writer."""

    def __init__(self, machine: Machine, quoting_enclave: QuotingEnclave) -> None:
        self._key = machine.attestation_key
        self._header = _header(quoting_enclave)
        self._certification = _public(machine) + _certification(machine, quoting_enclave)

    def quote(self, enclave: QuotedEnclave, report_data: bytes) -> bytes:
        """Return a raw quote of ``enclave`` over exactly 64 bytes of ``report_data``."""
        _require_length(report_data)
        signed = self._header + _enclave_report(enclave, report_data)
        return _whole(self._key, signed, self._certification)


class TdQuoteWriter:
    """The quoting enclave of a machine, for confidential VMs. Threads may share a writer."""

    def __init__(self, machine: Machine, quoting_enclave: QuotingEnclave) -> None:
        self._key = machine.attestation_key
        self._vendor = quoting_enclave.vendor
        certified = _certification(machine, quoting_enclave)
        framed = struct.pack("<HI", _QE_REPORT_DATA, len(certified)) + certified
        self._certification = _public(machine) + framed

    def quote(self, vm: QuotedTd, report_data: bytes) -> bytes:
        """Return a raw quote of ``vm`` over exactly 64 bytes of ``report_data``."""
        _require_length(report_data)
        version, body = vm.form.value
        report = _vm_report(vm, report_data)
        framing = struct.pack("<HI", body, len(report)) if body else b""
        header = struct.pack("<HHI4s16s20s", version, _ECDSA_P256, _TDX, b"", self._vendor, b"")
        return _whole(self._key, header + framing + report, self._certification)


def _require_length(report_data: bytes) -> None:
    if len(report_data) != _REPORT_DATA:
        raise ValueError(f"report data has {len(report_data)} bytes, must be {_REPORT_DATA}")


def _whole(key: EllipticCurvePrivateKey, signed: bytes, certification: bytes) -> bytes:
    data = sign(key, signed) + certification
    return signed + struct.pack("<I", len(data)) + data


def _header(quoting_enclave: QuotingEnclave) -> bytes:
    numbers = struct.pack("<HHIHH", 3, _ECDSA_P256, 0, quoting_enclave.security_version, _PCE_SVN)
    return numbers + quoting_enclave.vendor + bytes(20)


def _public(machine: Machine) -> bytes:
    point = machine.attestation_key.public_key().public_numbers()
    return point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big")


def _certification(machine: Machine, quoting_enclave: QuotingEnclave) -> bytes:
    data = quoting_enclave.authentication_data
    bound = hashlib.sha256(_public(machine) + data).digest()
    report = _quoting_report(quoting_enclave, bound)
    chain = pem(machine.pck, machine.pck_ca, machine.root).encode()
    return b"".join(
        (
            report,
            sign(machine.pck_key, report),
            struct.pack("<H", len(data)) + data,
            struct.pack("<HI", _CHAIN_PEM, len(chain)) + chain,
        )
    )


def _vm_report(vm: QuotedTd, report_data: bytes) -> bytes:
    """Return a TD report: 584 bytes, in version 1.5 648. Source: Intel, TDX DCAP quote library."""
    report = struct.pack(
        "<16s48s48s8s8s8s48s48s48s48s48s48s48s48s64s",
        vm.tee_tcb_svn,
        vm.mrseam,
        vm.mrsignerseam,
        vm.seam_attributes,
        vm.td_attributes,
        vm.xfam,
        vm.mrtd,
        vm.mrconfigid,
        vm.mrowner,
        vm.mrownerconfig,
        *vm.rtmrs,
        report_data,
    )
    if vm.form is TdxQuoteForm.V5_REPORT_15:
        report += struct.pack("<16s48s", vm.tee_tcb_svn2, vm.mrservicetd)
    return report


def _enclave_report(enclave: QuotedEnclave, report_data: bytes) -> bytes:
    who = enclave.measurements
    flags = _INITIALISED_64_BIT | (_DEBUG if enclave.debug else 0)
    return _report(
        attributes=struct.pack("<QQ", flags, _XFRM),
        unique_id=who.unique_id,
        signer=who.signer_id,
        versions=(who.product_id, who.security_version),
        report_data=report_data,
    )


def _quoting_report(quoting_enclave: QuotingEnclave, bound: bytes) -> bytes:
    return _report(
        attributes=quoting_enclave.attributes,
        unique_id=quoting_enclave.unique_id,
        signer=quoting_enclave.signer,
        versions=(quoting_enclave.product_id, quoting_enclave.security_version),
        report_data=bound.ljust(_REPORT_DATA, b"\0"),
        misc_select=quoting_enclave.misc_select,
    )


def _report(
    *,
    attributes: bytes,
    unique_id: bytes,
    signer: bytes,
    versions: tuple[int, int],
    report_data: bytes,
    misc_select: int = 0,
) -> bytes:
    """Return the 384 bytes of a report. Source: Intel SDM, "REPORT"."""
    return struct.pack(
        "<16sI28s16s32s32s32s96sHH60s64s",
        _CPU_SVN,
        misc_select,
        b"",
        attributes,
        unique_id,
        b"",
        signer,
        b"",
        *versions,
        b"",
        report_data,
    )
