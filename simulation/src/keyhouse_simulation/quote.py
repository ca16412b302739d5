"""Writes SGX quotes, version 3: header, report of the enclave, signature, what certifies it.

What is the same in every quote (the quoting enclave's report, its signature, the chain) is made
once: a quote costs one signature.
"""

import hashlib
import struct

from keyhouse_simulation.machine import Machine, pem, sign
from keyhouse_simulation.parameters import Enclave, QuotingEnclave

__all__ = ["QuoteWriter"]

_REPORT_DATA = 64
_CPU_SVN = bytes([2]) * 16
_PCE_SVN = 11
_INITIALISED_64_BIT = 0x05
_DEBUG = 0x02
_XFRM = 0xE7
_ECDSA_P256 = 2
_CHAIN_PEM = 5


class QuoteWriter:
    """The quoting enclave of a machine. May be shared among threads."""

    def __init__(self, machine: Machine, quoting_enclave: QuotingEnclave) -> None:
        self._key = machine.attestation_key
        self._header = _header(quoting_enclave)
        self._certification = _certification(machine, quoting_enclave)

    def quote(self, enclave: Enclave, report_data: bytes) -> bytes:
        """Return a raw quote of ``enclave`` over exactly 64 bytes of ``report_data``."""
        if len(report_data) != _REPORT_DATA:
            raise ValueError("report data have 64 bytes")
        signed = self._header + _enclave_report(enclave, report_data)
        data = sign(self._key, signed) + self._certification
        return signed + struct.pack("<I", len(data)) + data


def _header(quoting_enclave: QuotingEnclave) -> bytes:
    numbers = struct.pack("<HHIHH", 3, _ECDSA_P256, 0, quoting_enclave.security_version, _PCE_SVN)
    return numbers + quoting_enclave.vendor + bytes(20)


def _certification(machine: Machine, quoting_enclave: QuotingEnclave) -> bytes:
    point = machine.attestation_key.public_key().public_numbers()
    public = point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big")
    data = quoting_enclave.authentication_data
    report = _quoting_report(quoting_enclave, hashlib.sha256(public + data).digest())
    chain = pem(machine.pck, machine.pck_ca, machine.root).encode()
    return b"".join(
        (
            public,
            report,
            sign(machine.pck_key, report),
            struct.pack("<H", len(data)) + data,
            struct.pack("<HI", _CHAIN_PEM, len(chain)) + chain,
        )
    )


def _enclave_report(enclave: Enclave, report_data: bytes) -> bytes:
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
