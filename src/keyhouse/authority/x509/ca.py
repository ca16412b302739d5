"""The coordinator's certification authority: root, intermediate, marble root.

The root signs the intermediate. The marble root has the key and subject of the intermediate, but
signs itself. Clients outside trust the root. Workloads trust the marble root. An update replaces
the intermediate and the marble root. So workloads from before and after an update do not accept
each other, but clients still trust the same root.
"""

import ipaddress
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from keyhouse.authority.keys import (
    CoordinatorKeys,
    Curve,
    certificate_of,
    generate_key,
    private_key_of,
    sign_certificate,
    signature_hash,
)
from keyhouse.authority.x509.fields import key_identifier, random_serial, whole_second
from keyhouse.authority.x509.host_names import is_dns_name, read_address
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.key_usages import key_usage
from keyhouse.base.secret import Secret

ROOT_NAME: Final = "Keyhouse Coordinator"
INTERMEDIATE_NAME: Final = "Keyhouse Coordinator - Intermediate CA"
_SIMULATED: Final = " (SIMULATION)"

LIFETIME: Final = timedelta(microseconds=(2**63 - 1) // 1000)
"""2^63-1 nanoseconds, about 292.3 years: the longest duration in the interface's Go clients."""

_LOOPBACK: Final = ("127.0.0.1", "::1")
_ROOT_SECRET_BYTES: Final = 32  # as strong as the data key
_KEY_USAGE: Final = key_usage("digital_signature", "key_cert_sign")


def parse_names(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the DNS names and the IP addresses of a comma-separated list, in order.

    White space around an item, empty items and repetitions are dropped. Addresses are returned in
    canonical spelling. Raises ``InvalidError`` for an item that is neither name nor address.
    """
    dns_names: dict[str, None] = {}
    ip_addresses: dict[str, None] = {}
    problems: list[Problem] = []
    for position, entry in enumerate(part.strip() for part in text.split(",")):
        if not entry:
            continue
        address = _address(entry)
        if address is not None:
            ip_addresses[address] = None
        elif is_dns_name(entry):
            dns_names[entry] = None
        else:
            problems.append(
                Problem(
                    f"[{position}]",
                    "is neither a DNS name nor an IP address",
                    "write international names in their ASCII form (xn--...)",
                )
            )
    if problems:
        raise InvalidError("the coordinator's names cannot be used", problems)
    return tuple(dns_names), tuple(ip_addresses)


def make_coordinator_keys(
    *,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str],
    curve: Curve,
    now: datetime,
    simulated: bool,
) -> CoordinatorKeys:
    """Return keys, certificates and root secret for a new deployment with the given names.

    The certificates are valid from ``now`` (with a zone, cut to whole seconds) for 2^63-1 ns (292
    years). With ``simulated``, the common names forever contain a mark of the simulation. Source:
    ``docs/explanation/cryptography.md``, "Certificates".
    """
    dns, addresses = parse_names(",".join((*dns_names, *ip_addresses)))
    mark = _SIMULATED if simulated else ""
    root_key = generate_key(curve)
    root_subject = _subject(ROOT_NAME + mark)
    builder = _ca_builder(root_subject, root_key, dns, addresses, now)
    root_cert = sign_certificate(builder.issuer_name(root_subject), root_key, signature_hash(curve))
    unfinished = CoordinatorKeys(
        curve=curve,
        dns_names=dns,
        ip_addresses=addresses,
        root_cert=root_cert,
        root_key=_pkcs8(root_key),
        intermediate_cert=b"",
        intermediate_key=Secret(b""),
        marble_root_cert=b"",
        root_secret=Secret(secrets.token_bytes(_ROOT_SECRET_BYTES)),
    )
    return _with_intermediate(unfinished, _subject(INTERMEDIATE_NAME + mark), now)


def renew_intermediate(keys: CoordinatorKeys, now: datetime) -> CoordinatorKeys:
    """Return ``keys`` with a new intermediate key and new certificates for this key.

    Names, subject, root and root secret stay the same. Certificates by the old intermediate do not
    verify against the new marble root.
    """
    return _with_intermediate(keys, certificate_of(keys.intermediate_cert).subject, now)


def _with_intermediate(keys: CoordinatorKeys, subject: x509.Name, now: datetime) -> CoordinatorKeys:
    root = certificate_of(keys.root_cert)
    key = generate_key(keys.curve)
    algorithm = signature_hash(keys.curve)
    builder = _ca_builder(subject, key, keys.dns_names, keys.ip_addresses, now)
    authority = x509.AuthorityKeyIdentifier(
        key_identifier(root.public_key()),
        authority_cert_issuer=None,
        authority_cert_serial_number=None,
    )
    intermediate = builder.issuer_name(root.subject).add_extension(authority, critical=False)
    # ``reissued`` has the same key and subject, another serial number, and signs itself.
    reissued = _ca_builder(subject, key, keys.dns_names, keys.ip_addresses, now)
    reissued = reissued.issuer_name(subject)
    return msgspec.structs.replace(
        keys,
        intermediate_cert=sign_certificate(intermediate, private_key_of(keys.root_key), algorithm),
        intermediate_key=_pkcs8(key),
        marble_root_cert=sign_certificate(reissued, key, algorithm),
    )


def _ca_builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str],
    now: datetime,
) -> x509.CertificateBuilder:
    start = whole_second(now)
    public_key = key.public_key()
    identifier = x509.SubjectKeyIdentifier(key_identifier(public_key))
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(random_serial())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(_alternative_names(dns_names, ip_addresses), critical=False)
    )


def _alternative_names(
    dns_names: Sequence[str], ip_addresses: Sequence[str]
) -> x509.SubjectAlternativeName:
    addresses = dict.fromkeys((*_LOOPBACK, *ip_addresses))
    return x509.SubjectAlternativeName(
        [
            *(x509.DNSName(name) for name in dns_names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        ]
    )


def _subject(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pkcs8(key: ec.EllipticCurvePrivateKey) -> Secret:
    return Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))


def _address(text: str) -> str | None:
    try:
        return str(read_address(text))
    except ValueError:
        return None
