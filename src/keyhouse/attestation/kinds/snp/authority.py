"""AMD's certificates: authorities, and the keys that sign reports.

The root signs the intermediate (ASK, or ASVK for VLEK) and the revocation list. All signatures are
RSASSA-PSS with SHA-384 by keys of 4,096 bits.

This module parses the certificate of a signing key (VCEK or VLEK) itself. ``cryptography`` warns of
AMD's serial number 0 in these certificates, and announces to refuse it. The signed bytes are
encoded again from the parsed parts, so the signature fits only a DER encoding. Source: AMD,
"Versioned Chip Endorsement Key (VCEK) Certificate and KDS Interface Specification" (57230), "VCEK
Certificate Format"; RFC 5280.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, refusal
from keyhouse.base.byte_reader import der_elements, element
from keyhouse.wire.kinds.snp import SnpTcb

Roots = Mapping[str, bytes]
"""The pinned root of each line of processors, DER, by name of the line."""

_KEY_BITS = 4096  # AMD's ARK and ASK have RSA keys of this size
_SALT = 48  # bytes of the PSS salt: as long as SHA-384
_NAMES = {"VCEK": "SEV-{}", "VLEK": "SEV-VLEK-{}"}

_SEQUENCE, _INTEGER, _OBJECT_ID, _BITS, _OCTETS = 0x30, 0x02, 0x06, 0x03, 0x04
_EXPLICIT_0, _EXPLICIT_3, _BOOLEAN, _IA5 = 0xA0, 0xA3, 0x01, 0x16
_UTC_TIME, _TIME = 0x17, 0x18
_PSS: Final = bytes.fromhex("2a864886f70d01010a")
_COMMON_NAME: Final = bytes.fromhex("550403")
_AMD: Final = bytes.fromhex("2b060104019c7801")  # 1.3.6.1.4.1.3704.1
_PRODUCT, _HARDWARE, _PROVIDER = b"\x02", b"\x04", b"\x05"
_VERSIONS: Final = {"bootloader": b"\3\1", "tee": b"\3\2", "snp": b"\3\3", "microcode": b"\3\x08"}
_FMC: Final = b"\3\x09"
_CHIP: Final = {8, 64}  # bytes; Turin has 8


class Authority:
    """An intermediate authority, ``issuer``, and the ``root`` that issued it.

    ``product``: the line of processors of the root, such as Milan.
    """

    def __init__(self, product: str, root: x509.Certificate, issuer: x509.Certificate) -> None:
        self.product = product
        self.root = root
        self.issuer = issuer

    def require_at(self, at: datetime) -> None:
        """Raise ``QuoteRefusedError`` unless both certificates are valid at ``at``."""
        for each in (self.root, self.issuer):
            if at > each.not_valid_after_utc:
                raise refusal(QuoteProblem.EXPIRED)
            if at < each.not_valid_before_utc:
                raise refusal(QuoteProblem.NOT_YET_VALID)


def find_authority(
    name: bytes, signing_key: str, candidates: Iterable[bytes], roots: Roots
) -> Authority:
    """Return the authority with the subject ``name`` among ``candidates`` (DER).

    A root of ``roots`` must have issued the authority, for keys of the kind ``signing_key`` (VCEK
    or VLEK). Raises ``QuoteRefusedError`` if there is none.
    """
    for candidate in candidates:
        certificate = _certificate(candidate, name)
        if certificate is None:
            continue
        for product, der in roots.items():
            root = x509.load_der_x509_certificate(der)
            if _is_authority(certificate, root, _NAMES[signing_key].format(product)):
                return Authority(product, root, certificate)
    raise QuoteRefusedError(
        QuoteProblem.CHAIN,
        "the quote does not verify: no pinned root of AMD has issued the quote's certificates",
        hint="add AMD's file cert_chain for this line of processors to --amd-collateral",
    )


def require_issued(signed: bytes, signature: bytes, issuer: x509.Certificate) -> None:
    """Raise an exception of any kind unless ``issuer`` made ``signature`` over ``signed``."""
    key = issuer.public_key()
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size != _KEY_BITS:
        raise TypeError(
            f"the certificate of the issuer does not have an RSA key of {_KEY_BITS} bits"
        )
    scheme = padding.PSS(padding.MGF1(hashes.SHA384()), _SALT)
    key.verify(signature, signed, scheme, hashes.SHA384())


def newest_list(
    lists: Iterable[bytes], authority: Authority, at: datetime
) -> x509.CertificateRevocationList:
    """Return the newest of ``lists`` (DER) that the root of ``authority`` signed.

    The list must be valid at ``at``, and must not revoke ``authority``. Raises
    ``QuoteRefusedError``.
    """
    newest = _newest_of(lists, authority.root)
    if newest is None:
        raise QuoteRefusedError(
            QuoteProblem.COLLATERAL,
            f"the quote does not verify: there is no revocation list of AMD for"
            f" {authority.product}",
            hint="fetch the list from AMD's key distribution service, and name the file in"
            " --amd-collateral",
        )
    ends = newest.next_update_utc
    if ends is None or at > ends:
        raise refusal(QuoteProblem.EXPIRED)
    if at < newest.last_update_utc:
        raise refusal(QuoteProblem.NOT_YET_VALID)
    serial = authority.issuer.serial_number
    if newest.get_revoked_certificate_by_serial_number(serial) is not None:
        raise refusal(QuoteProblem.REVOKED)
    return newest


def end_of_lists(lists: Iterable[bytes], roots: Roots) -> datetime | None:
    """Return the earliest end, UTC, of revocation lists; None if no list has an end.

    ``lists`` are DER. For each root of ``roots``, only the newest list counts.
    """
    given = tuple(lists)
    newest = (_newest_of(given, x509.load_der_x509_certificate(der)) for der in roots.values())
    ends = (each.next_update_utc for each in newest if each is not None)
    return min((end for end in ends if end is not None), default=None)


def _newest_of(
    lists: Iterable[bytes], root: x509.Certificate
) -> x509.CertificateRevocationList | None:
    # Compared with None, because an empty list is false.
    read = [each for each in map(_list, lists) if each is not None]
    found = [each for each in read if _is_list_of(each, root)]
    return max(found, key=lambda each: each.last_update_utc, default=None)


def _certificate(der: bytes, name: bytes) -> x509.Certificate | None:
    """Return the certificate ``der`` if its subject is ``name``; None for any other bytes."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        # cryptography parses the names at their first use, and they may be invalid.
        return certificate if certificate.subject.public_bytes() == name else None
    # The bytes are not authenticated, and the exceptions of a parser vary.
    except Exception:  # noqa: BLE001
        return None


def _is_authority(certificate: x509.Certificate, root: x509.Certificate, name: str) -> bool:
    try:
        (common_name,) = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        named = common_name.value == name and certificate.issuer == root.subject
        if not (named and constraints.value.ca and _is_pss(certificate.signature_algorithm_oid)):
            return False
        require_issued(certificate.tbs_certificate_bytes, certificate.signature, root)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _list(der: bytes) -> x509.CertificateRevocationList | None:
    try:
        return x509.load_der_x509_crl(der)
    except Exception:  # noqa: BLE001 - as above
        return None


def _is_list_of(revoked: x509.CertificateRevocationList, root: x509.Certificate) -> bool:
    try:
        if revoked.issuer != root.subject or not _is_pss(revoked.signature_algorithm_oid):
            return False
        require_issued(revoked.tbs_certlist_bytes, revoked.signature, root)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _is_pss(algorithm: x509.ObjectIdentifier) -> bool:
    return algorithm == x509.SignatureAlgorithmOID.RSASSA_PSS


class Endorsement(msgspec.Struct, frozen=True):
    """The content of a VCEK or VLEK certificate, not verified. Its key signs reports."""

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
    provider: str  # the cloud provider of a VLEK; empty for VCEK


def read_endorsement(der: bytes) -> Endorsement:
    """Return the content of a VCEK or VLEK certificate (DER), not verified.

    Raises ``ValueError`` and further exceptions for any other bytes.
    """
    ((outer, whole),) = der_elements(der)
    (tbs_tag, tbs), (algorithm_tag, algorithm), (bits, signature) = der_elements(whole)
    if (outer, tbs_tag, algorithm_tag, bits) != (_SEQUENCE, _SEQUENCE, _SEQUENCE, _BITS):
        raise ValueError("the VCEK or VLEK is not an X.509 certificate")
    version, serial, inner, issuer, validity, subject, key, extensions = der_elements(tbs)
    if (version[0], serial[0], extensions[0]) != (_EXPLICIT_0, _INTEGER, _EXPLICIT_3):
        raise ValueError("the VCEK or VLEK is not an X.509 certificate of version 3")
    if inner[1] != algorithm or _inside(algorithm)[0] != (_OBJECT_ID, _PSS) or signature[0]:
        raise ValueError("the VCEK or VLEK certificate is not signed with RSASSA-PSS")
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
        raise TypeError("the VCEK or VLEK certificate does not have a P-384 key")
    return key


def _extensions(content: bytes) -> dict[bytes, bytes]:
    """Return the content of AMD's extensions, by the end of their object identifier.

    Raises ``ValueError`` if another extension is critical.
    """
    found: dict[bytes, bytes] = {}
    ((_, listed),) = der_elements(content)
    for _, extension in der_elements(listed):
        (_, object_id), *critical, (tag, value) = der_elements(extension)
        name = object_id.removeprefix(_AMD)
        if tag != _OCTETS or (name == object_id and critical) or name in found:
            raise ValueError(
                "the VCEK or VLEK certificate repeats an extension, or has a malformed extension"
            )
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
        raise ValueError(
            "the VCEK or VLEK certificate states a firmware version outside of 0 to 255"
        )
    return number


def _text(value: bytes) -> str:
    ((tag, content),) = der_elements(value)
    if tag != _IA5:
        raise ValueError("the VCEK or VLEK certificate has a name that is not an IA5String")
    return content.decode("ascii")


def _chip(found: dict[bytes, bytes]) -> bytes:
    """Return the identifier of the chip (CHIP_ID) in ``found``, AMD's extensions.

    AMD writes the identifier without tag and length.
    """
    chip = found.get(_HARDWARE, b"")
    if chip and len(chip) not in _CHIP:
        raise ValueError(f"the VCEK or VLEK certificate has a CHIP_ID of {len(chip)} bytes")
    return chip
