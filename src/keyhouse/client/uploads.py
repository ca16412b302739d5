"""Secrets as users upload them."""

import base64

import msgspec

from keyhouse.base.secret import Secret

__all__ = ["SecretUpload", "upload_fields"]


class SecretUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a user-defined secret: ``key`` alone, or ``cert`` with ``private``."""

    key: Secret | None = None
    cert: bytes = b""  # DER or PEM
    private: Secret | None = None  # PKCS #8 DER
    public: bytes = b""  # SubjectPublicKeyInfo, DER or PEM: has to be that of ``cert``


def upload_fields(secret: SecretUpload) -> dict[str, str]:
    """Return the fields that ``secret`` has, in base64. They are to be sent, and nothing else."""
    fields = {
        "key": secret.key.reveal() if secret.key else b"",
        "cert": secret.cert,
        "private": secret.private.reveal() if secret.private else b"",
        "public": secret.public,
    }
    return {name: base64.b64encode(v).decode() for name, v in fields.items() if v}
