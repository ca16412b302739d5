"""When a certificate ends."""

from datetime import UTC

from cryptography import x509

__all__ = ["expiry"]


def expiry(der: bytes) -> int | None:
    """Return the last second of the certificate ``der``: seconds since 1970, UTC.

    None for bytes that are no certificate: whether they may be kept was decided when they came.
    """
    try:
        end = x509.load_der_x509_certificate(der).not_valid_after_utc
    except ValueError:
        return None
    return int(end.astimezone(UTC).timestamp())
