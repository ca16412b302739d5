"""The certificate signing request of a workload: its claimed subject and its requested names.

At an activation, the key of the request only signs the request; the coordinator makes the key of
the certificate. A renewal certifies the key of the request. The names matter: with a name of the
coordinator, a workload could pass for the coordinator. The parts of a request, such as names, are
counted in the bytes before any part is parsed. The library takes microseconds for each part, and a
request of 16 KiB could have thousands of parts. Sources: ``docs/reference/activations.md``,
"Checks"; ``SECURITY.md``, "Defences"; RFC 2986, section 4; RFC 5280, sections 4.1 and 4.2.
"""

import warnings
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from itertools import chain, islice
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from keyhouse.authority.keys import CoordinatorKeys
from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.x509.host_names import (
    is_dns_name,
    read_address,
    takes_own_address,
    takes_own_name,
)
from keyhouse.authority.x509.subject import attribute
from keyhouse.base import rsa_keys
from keyhouse.base.byte_reader import der_elements
from keyhouse.base.errors import Findings, InvalidError, Problem
from keyhouse.base.printable import quoted
from keyhouse.base.rsa_keys import is_costly_rsa

LARGEST: Final = 16 * 1024
"""Maximum length in bytes of a request."""

MOST_NAMES: Final = 100
"""Maximum of subject alternative names in a request, of any kind."""

MOST_PARTS: Final = 32
"""Maximum of attributes in the subject, of other attributes, and of extensions of a request."""

_EXTENSION_REQUESTS: Final = (
    bytes.fromhex("2a864886f70d01090e"),  # 1.2.840.113549.1.9.14, PKCS #9
    bytes.fromhex("2b06010401823702010e"),  # 1.3.6.1.4.1.311.2.1.14, Microsoft
)
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")  # 2.5.29.17

_CURVES: Final = frozenset({ec.SECP256R1, ec.SECP384R1, ec.SECP521R1})
_OWN_CURVES: Final = frozenset({ec.SECP256R1, ec.SECP384R1})  # of keys in certificates
_KINDS: Final = frozenset({x509.DNSName, x509.IPAddress})  # classes without subclasses
# A workload cannot claim an organisation; the common name becomes its UUID.
_REPLACED: Final = frozenset({NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME})
_OTHER_NAME: Final = "choose a name that no client uses for the coordinator"


class SigningRequest(msgspec.Struct, frozen=True):
    """The checked content of a request. A request with a name of the coordinator is refused."""

    subject: tuple[x509.NameAttribute[str], ...]  # without common name and organisation
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]  # canonical

    @property
    def names(self) -> tuple[str, ...]:
        """The requested DNS names, then the requested IP addresses."""
        return (*self.dns_names, *self.ip_addresses)


def read_signing_request(der: bytes, keys: CoordinatorKeys) -> SigningRequest:
    """Return the content of the PKCS #10 request ``der``, with its DNS names and IP addresses.

    Names of further kinds are left out. Raises ``InvalidError`` for a malformed request, for too
    many parts, for a name of the coordinator, and for a request that its own key has not signed.
    The checks are ordered by cost: the signature comes last.
    """
    if len(der) > LARGEST:
        raise _refusal(f"is larger than {LARGEST} bytes", "request fewer names")
    try:
        request = x509.load_der_x509_csr(der)
        if excess := _too_many_parts(der):
            raise _refusal(f"has {excess}", "leave out unnecessary parts")
        _check_key(request.public_key())
        names = tuple(_alternative_names(request))
        # The library warns of values that are too long. They are refused below.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject = tuple(each for each in request.subject if each.oid not in _REPLACED)
        checked = _checked(subject, names, keys)
        if not request.is_signature_valid:
            raise _refusal("is not signed by its own key", "sign the request with this key")
    except LIBRARY_REFUSALS:
        raise _refusal("is not a readable PKCS #10 request", "send the request in DER") from None
    return checked


def requested_key(der: bytes) -> bytes:
    """Return the public key (SubjectPublicKeyInfo, DER) of a checked request, for its certificate.

    A renewal certifies this key. Raises ``InvalidError`` for a key that is not on P-256 or P-384.
    """
    key = x509.load_der_x509_csr(der).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or type(key.curve) not in _OWN_CURVES:
        raise _refusal("contains a key that is not on P-256 or P-384", "make a key on P-256")
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_key(key: object) -> None:
    """Refuse a key of an unusual kind, or with signatures that are costly to verify."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        usual = type(key.curve) in _CURVES
    elif isinstance(key, rsa.RSAPublicKey):
        usual = key.key_size >= rsa_keys.SMALLEST and not is_costly_rsa(key)
    else:
        usual = isinstance(key, ed25519.Ed25519PublicKey)
    if not usual:
        sizes = f"{rsa_keys.SMALLEST} to {rsa_keys.LARGEST}"
        hint = f"use a key on P-256, P-384 or P-521, Ed25519, or RSA with {sizes} bits"
        raise _refusal("contains a key of an unsupported kind", hint)


def _alternative_names(request: x509.CertificateSigningRequest) -> Iterator[x509.GeneralName]:
    try:
        found = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from (name for name in found if type(name) in _KINDS)


def _checked(
    subject: tuple[x509.NameAttribute[str | bytes], ...],
    names: tuple[x509.GeneralName, ...],
    keys: CoordinatorKeys,
) -> SigningRequest:
    problems: list[Problem] = []
    attributes = tuple(_attributes(subject, problems))
    dns_names = tuple(n.value for n in names if isinstance(n, x509.DNSName))
    addresses = tuple(_address(n.value) for n in names if isinstance(n, x509.IPAddress))
    if not all(map(is_dns_name, dns_names)):
        problems.append(Problem("CSR", "requests an invalid DNS name", "use ASCII host names"))
    if "" in addresses:
        hint = "use an IPv4 or IPv6 address"
        problems.append(Problem("CSR", "requests an invalid IP address", hint))
    own = [name for name in dns_names if is_dns_name(name) and takes_own_name(keys, name)]
    own += [address for address in addresses if takes_own_address(keys, address)]
    if own:  # only the first, because an anonymous client chooses their number; a name is public
        taken = f"requests {quoted(own[0])}, a name of the coordinator itself"
        problems.append(Problem("CSR", taken, _OTHER_NAME))
    if problems:
        raise InvalidError("the signing request", sorted(set(problems)))
    return SigningRequest(
        subject=attributes,
        dns_names=tuple(dict.fromkeys(dns_names)),
        ip_addresses=tuple(dict.fromkeys(addresses)),
    )


def _attributes(
    subject: Iterable[x509.NameAttribute[str | bytes]], problems: list[Problem]
) -> Iterator[x509.NameAttribute[str]]:
    """Yield the attributes of ``subject`` for a certificate; add the problems to ``problems``."""
    for given in subject:
        if not isinstance(given.value, str):
            text = "has a subject that is not text"
            problems.append(Problem("CSR", text, "leave the subject empty"))
            continue
        findings = Findings()
        made = attribute(given.oid, given.value, ("CSR",), findings)
        problems += findings.problems
        if made is not None:
            yield made


def _address(value: object) -> str:
    """Return the canonical text of an IP address; "" for a range of addresses."""
    if not isinstance(value, IPv4Address | IPv6Address):
        return ""
    return str(read_address(str(value)))


def _refusal(problem: str, hint: str) -> InvalidError:
    return InvalidError("the signing request", [Problem("CSR", problem, hint)])


def _too_many_parts(request: bytes) -> str:
    """Return the excess parts of ``request`` (DER), such as "more than 100 names"; empty if none.

    The limits bound the work, not the size. Raises ``ValueError`` for bytes that are not DER.
    """
    to_be_signed, _, _ = _children(_only(request))
    _, subject, _, *rest = _children(to_be_signed)
    attributes = (_children(each) for each in chain.from_iterable(map(_children, rest)))
    if _over(chain.from_iterable(map(_children, _children(subject))), MOST_PARTS):
        return f"more than {MOST_PARTS} attributes in its subject"
    if _over(chain.from_iterable(map(_children, rest)), MOST_PARTS):
        return f"more than {MOST_PARTS} attributes"
    extensions = list(islice(_extensions(attributes), MOST_PARTS + 1))
    if len(extensions) > MOST_PARTS:
        return f"more than {MOST_PARTS} extensions"
    if _over(chain.from_iterable(map(_names_in, extensions)), MOST_NAMES):
        return f"more than {MOST_NAMES} names"
    return ""


def _extensions(attributes: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    for identifier, values in attributes:
        if identifier in _EXTENSION_REQUESTS:
            for requested in _children(values):
                yield from _children(requested)


def _names_in(extension: bytes) -> Iterator[bytes]:
    identifier, *_, value = _children(extension)
    return _children(_only(value)) if identifier == _ALTERNATIVE_NAMES else iter(())


def _over(parts: Iterable[bytes], most: int) -> bool:
    return any(True for _ in islice(parts, most, None))


def _only(content: bytes) -> bytes:
    (only,) = _children(content)
    return only


def _children(content: bytes) -> Iterator[bytes]:
    return (inner for _, inner in der_elements(content))
