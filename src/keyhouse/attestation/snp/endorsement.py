"""The certificate of the key that signs reports: VCEK or VLEK.

It is read here and not by ``cryptography``, because AMD gives these certificates the serial number
0, which that library warns of and says that it will refuse. What is signed is put together again
from what was read: in any other encoding than DER the signature does not fit.
Source: AMD, "Versioned Chip Endorsement Key (VCEK) Certificate and KDS Interface Specification"
(57230), "VCEK Certificate Format"; RFC 5280.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_public_key

from keyhouse.wire.der_elements import der_elements, element
from keyhouse.wire.snp import SnpTcb

_SEQUENCE, _INTEGER, _OBJECT_ID, _BITS, _OCTETS = 0x30, 0x02, 0x06, 0x03, 0x04
_EXPLICIT_0, _EXPLICIT_3, _BOOLEAN, _IA5 = 0xA0, 0xA3, 0x01, 0x16
_UTC_TIME, _TIME = 0x17, 0x18
_PSS: Final = bytes.fromhex("2a864886f70d01010a")
_COMMON_NAME: Final = bytes.fromhex("550403")
_AMD: Final = bytes.fromhex("2b060104019c7801")  # 1.3.6.1.4.1.3704.1
_PRODUCT, _HARDWARE, _PROVIDER = b"\x02", b"\x04", b"\x05"
_VERSIONS: Final = {"bootloader": b"\3\1", "tee": b"\3\2", "snp": b"\3\3", "microcode": b"\3\x08"}
_FMC: Final = b"\3\x09"
_CHIP: Final = {8, 64}  # bytes; Turin's are short


class Endorsement(msgspec.Struct, frozen=True):
    """What such a certificate says. Nothing is verified."""

    signed: bytes
    signature: bytes
    issuer: bytes  # a Name, DER
    kind: str  # the subject's common name: SEV-VCEK or SEV-VLEK
    begins: datetime
    ends: datetime
    key: ec.EllipticCurvePublicKey  # P-384
    product: str  # Milan-B0, Turin
    tcb: SnpTcb
    chip: bytes  # 8 or 64 bytes; empty for VLEK
    provider: str  # the cloud provider that a VLEK is for; empty for VCEK


def read_endorsement(der: bytes) -> Endorsement:
    """Return what a certificate, DER, says. Raises ``ValueError`` of no fixed kind."""
    ((outer, whole),) = der_elements(der)
    (tbs_tag, tbs), (algorithm_tag, algorithm), (bits, signature) = der_elements(whole)
    if (outer, tbs_tag, algorithm_tag, bits) != (_SEQUENCE, _SEQUENCE, _SEQUENCE, _BITS):
        raise ValueError("no certificate")
    version, serial, inner, issuer, validity, subject, key, extensions = der_elements(tbs)
    if (version[0], serial[0], extensions[0]) != (_EXPLICIT_0, _INTEGER, _EXPLICIT_3):
        raise ValueError("no certificate of version 3")
    if inner[1] != algorithm or _inside(algorithm)[0] != (_OBJECT_ID, _PSS) or signature[0]:
        raise ValueError("not signed with RSASSA-PSS")
    begins, ends = (_time(*each) for each in der_elements(validity[1]))
    found = _extensions(extensions[1])
    return Endorsement(
        signed=element(_SEQUENCE, tbs),
        signature=signature[1:],
        issuer=element(*issuer),
        kind=_common_name(subject[1]),
        begins=begins,
        ends=ends,
        key=_key(element(*key)),
        product=_text(found[_PRODUCT]),
        tcb=_tcb(found),
        chip=_chip(found),
        provider=_text(found[_PROVIDER]) if _PROVIDER in found else "",
    )


def _inside(content: bytes) -> list[tuple[int, bytes]]:
    return list(der_elements(content))


def _time(tag: int, content: bytes) -> datetime:
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _TIME: "%Y%m%d%H%M%SZ"}[tag]
    return datetime.strptime(content.decode("ascii"), form).replace(tzinfo=UTC)


def _common_name(name: bytes) -> str:
    found = []
    for _, part in der_elements(name):
        for _, pair in der_elements(part):
            (_, object_id), (_, value) = der_elements(pair)
            if object_id == _COMMON_NAME:
                found.append(value.decode("ascii"))
    (only,) = found
    return only


def _key(der: bytes) -> ec.EllipticCurvePublicKey:
    key = load_der_public_key(der)
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP384R1)):
        raise TypeError("no P-384 key")
    return key


def _extensions(content: bytes) -> dict[bytes, bytes]:
    """Return AMD's extensions by the end of their identifier. Others must not be critical."""
    found: dict[bytes, bytes] = {}
    ((_, listed),) = der_elements(content)
    for _, extension in der_elements(listed):
        (_, object_id), *critical, (tag, value) = der_elements(extension)
        name = object_id.removeprefix(_AMD)
        if tag != _OCTETS or (name == object_id and critical) or name in found:
            raise ValueError("an extension that cannot be")
        if name != object_id:
            found[name] = value
    return found


def _tcb(found: dict[bytes, bytes]) -> SnpTcb:
    versions = {name: _number(found[code]) for name, code in _VERSIONS.items()}
    return SnpTcb(**versions, fmc=_number(found[_FMC]) if _FMC in found else None)


def _number(value: bytes) -> int:
    ((tag, content),) = der_elements(value)
    number = int.from_bytes(content, "big", signed=True)
    if tag != _INTEGER or number not in range(256):
        raise ValueError("no version")
    return number


def _text(value: bytes) -> str:
    ((tag, content),) = der_elements(value)
    if tag != _IA5:
        raise ValueError("no text")
    return content.decode("ascii")


def _chip(found: dict[bytes, bytes]) -> bytes:
    """Return the identifier of the chip, which AMD writes without tag and length."""
    chip = found.get(_HARDWARE, b"")
    if chip and len(chip) not in _CHIP:
        raise ValueError("no identifier of a chip")
    return chip
