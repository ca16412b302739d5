"""Certificate signing requests of workloads.

Oracle: the only permitted exception is ``InvalidError``. The holder of the key has signed each
accepted request. An accepted request has no name and no address of the coordinator: not in capital
letters, not with a last dot, and not by a wildcard. Only the name ``localhost`` is permitted. An
accepted request has no common name and no organisation.
"""

import ipaddress
import re
import warnings
from datetime import UTC, datetime
from random import Random
from typing import ClassVar, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from fuzz.forgery.case import part
from fuzz.mutations import flipped, mutated
from fuzz.target import FindingError, Target

from keyhouse.authority import make_coordinator_keys, read_signing_request
from keyhouse.authority.x509.signing_request import SigningRequest
from keyhouse.base.errors import InvalidError

__all__ = ["RequestTarget"]

_NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
_NAMED: Final = re.compile(r' ?["].*')
_OWN_NAMES: Final = ("coordinator.example.com", "localhost")
_OWN_ADDRESSES: Final = ("10.1.2.3", "2001:db8::1")
_NAMES: Final = (
    *("web", "a.example.org", "localhost", "LOCALHOST", "coordinator.example.com", "*.example.com"),
    *("coordinator.example.com.", "Coordinator.Example.COM", "*", "*.com", "", ".", "a..b", "-a"),
    *(
        "xn--bcher-kva.example",
        "a_b",
        "a b",
        "a\0b",
        "1.2.3.4",
        "a" * 64,
        "a." * 120 + "a",
        "*.*.a",
    ),
)
_ADDRESSES: Final = ("127.0.0.1", "::1", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "0.0.0.0")  # noqa: S104 - a name
_OIDS: Final = (
    *(NameOID.COUNTRY_NAME, NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.EMAIL_ADDRESS),
    *(NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.SERIAL_NUMBER, NameOID.DOMAIN_COMPONENT),
)
_TEXTS: Final = ("DE", "web", "Someone", "é", "a" * 64, "a@b", "1", "\x01", "x\0y", "\u202e")

_Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


class _Case(msgspec.Struct, frozen=True, array_like=True):
    der: bytes
    signed: bytes  # digest of the to-be-signed part with a signature of the key


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class RequestTarget(Target):
    """Requests with odd names, changed bytes, and keys of many kinds."""

    name: ClassVar[str] = "requests"
    about: ClassVar[str] = "certificate signing requests of workloads"

    def __init__(self) -> None:
        self._keys = make_coordinator_keys(
            dns_names=_OWN_NAMES,
            ip_addresses=_OWN_ADDRESSES,
            curve="P-256",
            now=_NOW,
            simulated=False,
        )
        p256, p384 = (ec.generate_private_key(curve()) for curve in (ec.SECP256R1, ec.SECP384R1))
        small = ec.generate_private_key(ec.SECP224R1())
        rsa_key = rsa.generate_private_key(65537, 2048)
        ed = ed25519.Ed25519PrivateKey.generate()
        self._signers: tuple[_Key, ...] = (*(p256,) * 8, p384, rsa_key, ed, small)

    def draw(self, chance: Random) -> bytes:
        """Return a request: unchanged, changed before the signature, or changed afterwards."""
        key = chance.choice(self._signers)
        der, signed = _request(key, chance)
        how = chance.random()
        if how < 0.25:
            return _encode(_Case(der, signed))
        if how < 0.6 and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 256:
            der, signed = _signed_again(der, key, chance)
            return _encode(_Case(der, signed))
        change = flipped if chance.random() < 0.5 else mutated
        return _encode(_Case(change(der, chance), signed))

    def judge(self, case: bytes) -> str:
        """Read the request. Check an accepted request again."""
        given = _decoder.decode(case)
        try:
            read = read_signing_request(given.der, self._keys)
        except InvalidError as refused:
            return f"refused: {_NAMED.split(refused.problems[0].problem)[0]}"
        body = x509.load_der_x509_csr(given.der).tbs_certrequest_bytes
        if part("csr", body) != given.signed:
            raise FindingError("a request was accepted without a signature of its key")
        _require_harmless(read)
        return "accepted"


def _request(key: _Key, chance: Random) -> tuple[bytes, bytes]:
    """Return a request and the digest of its signed part."""
    names: list[x509.GeneralName] = [
        _dns(chance.choice(_NAMES)) for _ in range(chance.choice((0, 1, 1, 2)))
    ]
    names += [
        x509.IPAddress(ipaddress.ip_address(chance.choice(_ADDRESSES)))
        for _ in range(chance.choice((0, 0, 1)))
    ]
    if chance.random() < 0.1:
        names.append(x509.IPAddress(ipaddress.ip_network("10.0.0.0/8")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attributes = [_attribute(chance) for _ in range(chance.choice((0, 0, 1, 2)))]
        builder = x509.CertificateSigningRequestBuilder().subject_name(
            x509.Name([each for each in attributes if each is not None])
        )
        if names:
            extension = x509.SubjectAlternativeName(names)
            builder = builder.add_extension(extension, critical=chance.random() < 0.2)
        algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256()
        try:
            made = builder.sign(key, algorithm)
        except ValueError:  # the library refuses to write this request
            return _request(key, chance)
    return made.public_bytes(Encoding.DER), part("csr", made.tbs_certrequest_bytes)


def _dns(name: str) -> x509.GeneralName:
    made: x509.GeneralName = x509.DNSName._init_without_validation(name)  # noqa: SLF001
    return made


def _attribute(chance: Random) -> x509.NameAttribute[str] | None:
    try:
        return x509.NameAttribute(chance.choice(_OIDS), chance.choice(_TEXTS))
    except ValueError:  # the library refuses to write this name
        return None


def _signed_again(
    der: bytes, key: ec.EllipticCurvePrivateKey, chance: Random
) -> tuple[bytes, bytes]:
    """Return the request with a changed body and a new signature of its key."""
    body = x509.load_der_x509_csr(der).tbs_certrequest_bytes
    changed = flipped(body, chance)
    while chance.random() < 0.4:
        changed = flipped(changed, chance)
    digest = SHA256() if chance.random() < 0.9 else SHA384()
    signature = key.sign(changed, ec.ECDSA(digest))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")  # ecdsa-with-SHA256
    content = changed + algorithm + b"\x03" + _length(len(signature) + 1) + b"\0" + signature
    return b"\x30" + _length(len(content)) + content, part("csr", changed)


def _length(count: int) -> bytes:
    if count < 0x80:
        return bytes([count])
    size = (count.bit_length() + 7) // 8
    return bytes([0x80 | size]) + count.to_bytes(size)


def _require_harmless(read: SigningRequest) -> None:
    """Raise ``FindingError`` for names and addresses of the coordinator, and for invalid names."""
    for name in read.dns_names:
        folded = name.lower().rstrip(".")
        tail = folded.removeprefix("*.")
        own = [each for each in _OWN_NAMES if each != "localhost"]
        covered = folded.startswith("*.") and tail in {each.partition(".")[2] for each in own}
        if folded in own or covered or not name.isascii() or "\0" in name:
            raise FindingError("a name of the coordinator or an invalid name was accepted")
    for address in read.ip_addresses:
        parsed = ipaddress.ip_address(address)
        mapped = getattr(parsed, "ipv4_mapped", None) or parsed
        if str(mapped) in _OWN_ADDRESSES:
            raise FindingError("an address of the coordinator was accepted")
    if any(each.oid in {NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME} for each in read.subject):
        raise FindingError("a common name or an organisation was accepted")
