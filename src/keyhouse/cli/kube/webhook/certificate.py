"""Issue and rotate the certificates of the webhook.

Each process of the webhook has its own key, which never leaves its memory. Its certificate is
self-signed, and is not an authority. The bundle in the webhook configurations lists the
certificates of all processes, so the API server accepts exactly these certificates.

A rotation has two steps. First the process publishes the next certificate beside the current
certificate. After the overlap, the process presents the next certificate. By then every API server
has read the bundle, so no request fails.
"""

import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from keyhouse.base.secret import Secret
from keyhouse.client.identity import PemIdentity

LIFETIME: Final = timedelta(hours=24)
_SKEW: Final = timedelta(minutes=5)
"""The clocks of nodes differ. A certificate is valid this long before its time."""


class ServedCertificate(NamedTuple):
    """A certificate (PEM), the TLS context to present it, its time of issue and of expiry."""

    certificate: bytes
    context: ssl.SSLContext
    issued: datetime
    until: datetime


def issue(name: str, now: datetime, lifetime: timedelta) -> ServedCertificate:
    """Return a certificate for the DNS name ``name``, with a new key.

    The certificate is valid until ``lifetime`` after ``now``.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "keyhouse webhook")])
    until = now + lifetime
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    PemIdentity(pem, Secret(private)).present(context)
    return ServedCertificate(pem, context, now, until)


class Rotation:
    """The certificates of a process: the current certificate, and the next during a rotation.

    ``name`` is the DNS name of the webhook. ``publish`` receives the certificates (PEM) for the API
    server to accept, and the present time. Each certificate is valid for ``lifetime``.
    """

    def __init__(
        self,
        name: str,
        publish: Callable[[Sequence[bytes], datetime], None],
        lifetime: timedelta = LIFETIME,
    ) -> None:
        self._name = name
        self._publish = publish
        self._lifetime = lifetime
        self._next: ServedCertificate | None = None
        self.current: ServedCertificate | None = None

    @property
    def overlap(self) -> timedelta:
        """The time between the publication of a certificate and its first use."""
        return self._lifetime / 10

    def renew(self, now: datetime) -> None:
        """Issue the next certificate. Later calls of ``step`` publish and then present it."""
        self._next = issue(self._name, now, self._lifetime)

    def step(self, now: datetime) -> bool:
        """Issue, publish or present a certificate, as is due at the time ``now``.

        Return whether the presented certificate has changed. Each call publishes the certificates
        again, because a user can replace the configurations. Raises the errors of ``publish``; the
        next call tries again.
        """
        if self.current is None:
            first = issue(self._name, now, self._lifetime)
            self._publish([first.certificate], now)
            self.current = first
            return True
        if self._next is None and now >= self.current.issued + self._lifetime / 2:
            self.renew(now)
        waiting = [] if self._next is None else [self._next]
        self._publish([each.certificate for each in (self.current, *waiting)], now)
        if self._next is not None and now >= self._next.issued + self.overlap:
            self.current, self._next = self._next, None
            return True
        return False


def unexpired(bundle: bytes, now: datetime) -> list[bytes]:
    """Return the certificates (PEM) of ``bundle`` that have not expired at the time ``now``.

    The result is empty for an unreadable bundle.
    """
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []
    return [each.public_bytes(Encoding.PEM) for each in found if each.not_valid_after_utc > now]


def present_time() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)
