"""The credentials of a joining workload: a temporary TLS certificate, its quote, and a CSR.

The key is generated for one start and then discarded, because the coordinator delivers the
workload's key. The certificate signing request has the names for the delivered certificate.
"""

import ipaddress
import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from keyhouse.attestation import Platform, quote_binding, report_data
from keyhouse.attestation.kinds.table import in_transport
from keyhouse.base.key_usages import key_usage
from keyhouse.base.secret import Secret
from keyhouse.launcher.errors import LaunchRefusedError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

COMMON_NAME: Final = "Keyhouse Workload"
# The coordinator does not check these dates. Other peers may check them with different clocks.
_BEFORE: Final = timedelta(days=1)
_AFTER: Final = timedelta(days=2)

_LOOPBACK: Final = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
# The coordinator decides on the allowed names. This pattern rejects names that no certificate can
# contain.
_NAME: Final = re.compile(r"[A-Za-z0-9_.*-]{1,253}")


class Names(NamedTuple):
    """DNS names, and IP addresses: 127.0.0.1 and ::1 first, then the requested addresses."""

    dns: tuple[str, ...]
    ips: tuple[IpAddress, ...]


def read_names(text: str) -> Names:
    """Return the names in ``text``, a comma-separated list, in its order, without duplicates.

    White space around an entry and empty entries are dropped. An entry that parses as an IP address
    counts as an IP address. Raises ``LaunchRefusedError``. Source: ``docs/reference/launcher.md``.
    """
    dns: dict[str, None] = {}
    ips: dict[IpAddress, None] = dict.fromkeys(_LOOPBACK)
    for position, entry in enumerate(part.strip() for part in text.split(",")):
        if not entry:
            continue
        address = _address(entry)
        if address is not None:
            ips[address] = None
        elif _NAME.fullmatch(entry):
            dns[entry] = None
        else:
            raise LaunchRefusedError(
                f"entry {position + 1} of --dns-names must be a DNS name or an IP address",
                hint="write international names in their ASCII form (xn--...)",
            )
    return Names(tuple(dns), tuple(ips))


class Credentials(msgspec.Struct, frozen=True):
    """A fresh key, a self-signed certificate for the TLS handshake, and a signing request."""

    key: Secret  # PKCS #8 DER, P-256
    certificate: bytes  # DER, self-signed; the quote is over its SHA-256
    request: bytes  # PKCS #10 DER


def make_credentials(names: Names, now: datetime | None = None) -> Credentials:
    """Return credentials with a fresh P-256 key. ``now`` has a zone; None: the current time.

    ``names``: the names in the certificate and in the signing request. Source:
    ``docs/reference/launcher.md``. The interface names P-384. P-256 replaces it, because the proof
    of a P-384 key costs the coordinator much more.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName(
        [*map(x509.DNSName, names.dns), *map(x509.IPAddress, names.ips)]
    )
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(alternatives, critical=False)
        .sign(key, SHA256())
    )
    return Credentials(
        Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        _certificate(key, alternatives, now or datetime.now(UTC)),
        request.public_bytes(Encoding.DER),
    )


def quote_over(certificate: bytes, platform: Platform) -> bytes:
    """Return the platform's quote over ``certificate``, the TLS client certificate (DER).

    An SGX quote gets the 16-byte header; other quotes stay unchanged. Raises the platform's errors.
    Source: ``docs/reference/evidence-quotes.md``, "Report data".
    """
    raw = platform.quote(report_data(quote_binding(certificate)))
    return in_transport(raw)


def _address(entry: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(entry)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise LaunchRefusedError(
            "an IP address in --dns-names has a zone, but must not", hint="remove the zone (%...)"
        )
    return address


def _certificate(
    key: ec.EllipticCurvePrivateKey, alternatives: x509.SubjectAlternativeName, now: datetime
) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(key_usage("digital_signature", "key_agreement"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.DER)
