"""Simple fields of certificates: identifiers (OID, serial number, key identifier), and validity."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.base.errors import BrokenError, Findings
from keyhouse.wire import lineage, workload_api

LINEAGE: Final = x509.ObjectIdentifier(lineage.LINEAGE)
MARBLE_TYPE: Final = x509.ObjectIdentifier(workload_api.MARBLE_TYPE)

_MOST: Final = 2**31  # an arc has at most 31 bits
_KEY_IDENTIFIER: Final = 20  # bytes, RFC 7093, 2: the leftmost 160 bits of a SHA-256 hash


def from_arcs(numbers: Sequence[int]) -> x509.ObjectIdentifier:
    """Return the OID of ``numbers``, such as ``(2, 5, 4, 3)``. Raises ``ValueError`` if invalid.

    Arcs beyond 31 bits are refused. Go, for example, cannot parse a certificate with such an arc.
    """
    if any(number >= _MOST for number in numbers):
        raise ValueError("an arc of an object identifier has more than 31 bits")
    return x509.ObjectIdentifier(".".join(str(number) for number in numbers))


def arcs(identifier: x509.ObjectIdentifier) -> tuple[int, ...]:
    """Return the numbers of an object identifier, such as ``(2, 5, 4, 3)``."""
    return tuple(int(arc) for arc in identifier.dotted_string.split("."))


def random_serial() -> int:
    """Return a random serial number, at least 1 and below 2^128.

    RFC 5280, 4.1.2.2, requires a positive number of at most 20 octets.
    """
    return 1 + secrets.randbelow(2**128 - 1)


def key_identifier(public_key: CertificatePublicKeyTypes) -> bytes:
    """Return the key identifier: 20 bytes of SHA-256 over the bits of the subjectPublicKey.

    Source: RFC 7093, section 2, method 1.
    """
    if isinstance(public_key, ec.EllipticCurvePublicKey):
        bits = public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    elif isinstance(public_key, rsa.RSAPublicKey):
        bits = public_key.public_bytes(Encoding.DER, PublicFormat.PKCS1)
    else:
        bits = public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(bits).digest()[:_KEY_IDENTIFIER]


DEFAULT_DAYS: Final = 365
"""Days of a generated certificate without a period in the manifest."""

_RFC3339: Final = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)"
# Go's zero time, which programs write into manifests for a missing value.
_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def whole_second(now: datetime) -> datetime:
    """Return ``now`` in UTC in whole seconds, because certificates have no fractions."""
    if now.tzinfo is None:
        raise BrokenError("a time without a zone reached the authority")
    return now.astimezone(UTC).replace(microsecond=0)


def end_of_validity(not_after: str, valid_for: int, now: datetime, findings: Findings) -> datetime:
    """Return the end (UTC) of a certificate made ``now``.

    ``not_after`` is RFC 3339 text, "" if not given. ``valid_for`` counts calendar days, 0 if not
    given. Both together are a problem; the default is 365 days. After a new problem in
    ``findings``, the result has no meaning. Source: ``docs/reference/manifest.md``, "Secrets".
    """
    start = whole_second(now)
    if not_after and not_after != _ZERO_TIME:
        if valid_for:
            problem = "is given together with Cert.NotAfter"
            findings.refuse(("ValidFor",), problem, "remove ValidFor or Cert.NotAfter")
            return start
        return _given_end(not_after, start, findings)
    try:
        return start + timedelta(days=valid_for or DEFAULT_DAYS)
    except OverflowError:
        hint = "use fewer days; certificates cannot contain a date after the year 9999"
        findings.refuse(("ValidFor",), "ends after the year 9999", hint)
        return start


def _given_end(not_after: str, start: datetime, findings: Findings) -> datetime:
    here = ("Cert", "NotAfter")
    end = _read(not_after)
    if end is None:
        hint = "write it like 2030-01-31T12:00:00Z"
        findings.refuse(here, "is not an RFC 3339 time with a zone", hint)
        return start
    if end <= start:
        findings.refuse(here, "is in the past", "use a later date, or ValidFor")
    return end


def expiry(der: bytes) -> int | None:
    """Return the last second of the validity of the certificate ``der``: seconds since 1970, UTC.

    None for bytes that are not a certificate: the state may contain such bytes.
    """
    try:
        end = x509.load_der_x509_certificate(der).not_valid_after_utc
    except ValueError:
        return None
    return int(end.astimezone(UTC).timestamp())


def _read(text: str) -> datetime | None:
    match = re.fullmatch(_RFC3339, text, re.ASCII)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(match[1] + match[2]).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
