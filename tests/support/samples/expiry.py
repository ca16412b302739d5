"""Manifests with users whose certificates end at a chosen time."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from support.samples.deployment import manifest

__all__ = ["certificate_until", "manifest_with"]

_KEY = ec.generate_private_key(ec.SECP256R1())


def certificate_until(end: datetime, name: str = "user") -> x509.Certificate:
    """Return a certificate that is valid until ``end``."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(_KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=3650))
        .not_valid_after(end)
        .sign(_KEY, hashes.SHA256())
    )


def manifest_with(
    users: Mapping[str, datetime], secrets: Mapping[str, Mapping[str, Any]] | None = None
) -> bytes:
    """Return the usual manifest with more ``users``; the values are the ends of certificates.

    ``writer`` may write the user-defined secrets in ``secrets``.
    """
    content = json.loads(manifest())
    for name, end in users.items():
        pem = certificate_until(end, name).public_bytes(Encoding.PEM).decode()
        content["Users"][name] = {"Certificate": pem}
    content["Secrets"] |= secrets or {}
    theirs = [name for name, one in (secrets or {}).items() if one.get("UserDefined")]
    content["Roles"]["write"]["ResourceNames"] += theirs
    return json.dumps(content).encode()
