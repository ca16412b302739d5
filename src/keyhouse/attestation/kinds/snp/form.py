"""The quote of SEV-SNP: a report with certificates.

::

    report 1,184 | { GUID 16 | offset 4 | length 4 } ... | 24 zeros | certificates

After the report follows the table of the GHCB specification, as in ``SNP_GET_EXT_REPORT`` and
configfs-tsm (``auxblob``). Offsets count from the first byte of the table. Numbers are
little-endian. If the host sends no certificates, nothing follows the report. In a quote, the
certificates must follow each other without gaps and without other data, and each must be strict
DER. A quote of SGX or TDX has the key type 2 in bytes 2 and 3, so it cannot be confused with a
report.

The bytes of a quote do not identify a report, because two different quotes may contain the same
report. If (r, s) is a valid signature, (r, n - s) is valid, too. Real reports have both large and
small s, so neither form can be refused. Also, a host may leave certificates out. So nothing
recognises a machine or a repetition by the bytes of a quote.

Source: AMD, "SEV-ES Guest-Hypervisor Communication Block" (56421), "SNP Extended Guest Request".
"""

import struct
from collections.abc import Mapping
from enum import Enum
from typing import Final
from uuid import UUID

from keyhouse.base.byte_reader import LayoutError

SNP_REPORT: Final = 1184
"""Bytes of a report."""

SNP_VERSIONS: Final = (2, 3, 5)
"""The known versions of reports."""

_ENTRY: Final = struct.Struct("<16sII")
_END: Final = bytes(_ENTRY.size)
_MOST: Final = 16  # entries, chosen: hosts send up to five


class SnpCertificate(Enum):
    """The kinds of certificates beside a report, by GUID."""

    VCEK = UUID("63da758d-e664-4564-adc5-f4b93be8accd").bytes
    VLEK = UUID("a8074bc2-a25a-483e-aae6-39c045a0b8a1").bytes
    ASK = UUID("4ab7b379-bbac-4fe4-a02f-05aef327c782").bytes  # ASVK too
    ARK = UUID("c0b406a4-a803-4952-9743-3fb6014cd0ae").bytes


def read_table(table: bytes) -> dict[SnpCertificate, bytes]:
    """Return the certificates (DER, not verified) of a ``table`` without gaps and other data.

    Raises ``LayoutError``.
    """
    if not table:
        return {}
    entries, end = _entries(table)
    found: dict[SnpCertificate, bytes] = {}
    for guid, offset, length in entries:
        try:
            kind = SnpCertificate(guid)
        except ValueError:
            raise LayoutError(
                "the table of certificates after the report has a certificate of an unknown kind"
            ) from None
        if kind in found or offset != end or not length:
            raise LayoutError(
                "the table of certificates after the report has a gap, or repeats a certificate"
            )
        end += length
        found[kind] = table[offset:end]
    if end != len(table) or not found:
        raise LayoutError("the table of certificates does not end with its last certificate")
    return found


def write_table(certificates: Mapping[SnpCertificate, bytes]) -> bytes:
    """Return the table of ``certificates``, DER; empty without certificates."""
    if not certificates:
        return b""
    at = _ENTRY.size * (len(certificates) + 1)
    head = b""
    for kind, der in certificates.items():
        head += _ENTRY.pack(kind.value, at, len(der))
        at += len(der)
    return head + _END + b"".join(certificates.values())


def known_certificates(table: bytes) -> dict[SnpCertificate, bytes]:
    """Return the certificates of known kinds in a host's table, which may have gaps and padding.

    Raises ``LayoutError``.
    """
    found: dict[SnpCertificate, bytes] = {}
    kinds = {kind.value: kind for kind in SnpCertificate}
    for guid, offset, length in _entries(table)[0] if table.strip(b"\0") else ():
        if offset + length > len(table):
            raise LayoutError("the table of certificates ends inside a certificate")
        if guid in kinds and length:
            found[kinds[guid]] = table[offset : offset + length]
    return found


def _entries(table: bytes) -> tuple[list[tuple[bytes, int, int]], int]:
    """Return the entries of ``table`` (GUID, offset, length), and the offset after the end mark."""
    found: list[tuple[bytes, int, int]] = []
    for at in range(0, _ENTRY.size * (_MOST + 1), _ENTRY.size):
        entry = table[at : at + _ENTRY.size]
        if len(entry) < _ENTRY.size:
            raise LayoutError("the quote ends inside its table of certificates")
        if entry == _END:
            return found, at + _ENTRY.size
        found.append(_ENTRY.unpack(entry))
    raise LayoutError("the table of certificates has no end mark")
