"""Data for uploads: manifests of realistic size, a user with the rights, and secrets."""

import base64
import datetime as dt
import secrets
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = [
    "LIMITED",
    "User",
    "envelope",
    "joining_manifest",
    "large_manifest",
    "marble_name",
    "read_target",
    "read_targets",
    "secret_name",
    "secrets_manifest",
    "update_manifests",
    "upload_bodies",
    "upload_chunks",
]

_KEY_BITS: Final = 256
_CHUNK: Final = 1000  # secrets in one request
_UPLOAD_LINES: Final = 20_000
_LIMIT: Final = 1_000_000_000

LIMITED: Final = "limited"
"""The marble type with a limit of activations, in manifests for joining."""


class User(msgspec.Struct, frozen=True):
    """A user: the PEM files of certificate and key, and the certificate as PEM text."""

    certificate: Path
    key: Path
    text: str

    @classmethod
    def create(cls, folder: Path) -> "User":
        """Make a user with a P-256 key and a self-signed certificate, valid for one day."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark user")])
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        pem = certificate.public_bytes(Encoding.PEM)
        user = cls(folder / "user.crt", folder / "user.key", pem.decode("ascii"))
        user.certificate.write_bytes(pem)
        user.key.touch(0o600)
        user.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return user


def secret_name(number: int) -> str:
    """Return the name of a secret; all have the same length."""
    return f"secret-{number:05}"


def secrets_manifest(count: int, user: User) -> bytes:
    """Return a manifest with ``count`` user-defined keys, which one user may read and write."""
    names = [secret_name(number) for number in range(count)]
    definition = {"Type": "symmetric-key", "Size": _KEY_BITS, "UserDefined": True}
    return msgspec.json.encode(
        {
            "Packages": {"app": _package(0)},
            "Marbles": {"app": {"Package": "app"}},
            "Secrets": dict.fromkeys(names, definition),
            "Users": {"keeper": {"Certificate": user.text, "Roles": ["keepers"]}},
            "Roles": {
                "keepers": {
                    "ResourceType": "Secrets",
                    "ResourceNames": names,
                    "Actions": ["ReadSecret", "WriteSecret"],
                }
            },
        }
    )


def large_manifest(
    packages: int = 1000, marbles: int = 1000, keys: int = 1000, certificates: int = 100
) -> bytes:
    """Return a manifest with the given numbers of parts.

    Each marble uses a key. The certificates are P-256.
    """
    return msgspec.json.encode(_large(packages, marbles, keys, certificates))


def joining_manifest(marbles: int) -> bytes:
    """Return a manifest with ``marbles`` marbles, packages and keys, and the marble ``LIMITED``.

    The benchmarks never reach the limit of ``LIMITED``. The manifest also has a shared P-256
    certificate for each ten marbles.
    """
    document = _large(marbles, marbles, marbles, marbles // 10)
    limited = _marble(0, marbles, marbles) | {"MaxActivations": _LIMIT}
    return msgspec.json.encode(document | {"Marbles": document["Marbles"] | {LIMITED: limited}})


def marble_name(number: int) -> str:
    """Return the name of a marble type."""
    return f"marble-{number}"


def update_manifests(first: User, second: User) -> tuple[bytes, bytes]:
    """Return a small manifest, and the large manifest of a full update.

    Both users must agree to the update.
    """
    users = {
        "first": {"Certificate": first.text, "Roles": ["admins"]},
        "second": {"Certificate": second.text, "Roles": ["admins"]},
    }
    roles = {"admins": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]}}
    people = {"Users": users, "Roles": roles}
    small, large = _large(1, 1, 1, 0) | people, _large(1000, 1000, 1000, 100) | people
    return msgspec.json.encode(small), msgspec.json.encode(large)


def _large(packages: int, marbles: int, keys: int, certificates: int) -> dict[str, Any]:
    certificate = {"Type": "cert-ecdsa", "Size": 256, "Shared": True, "ValidFor": 90}
    key = {"Type": "symmetric-key", "Size": _KEY_BITS, "Shared": True}
    return {
        "Packages": {f"package-{n}": _package(n) for n in range(packages)},
        "Marbles": {marble_name(n): _marble(n, packages, keys) for n in range(marbles)},
        "Secrets": {f"key{n}": key for n in range(keys)}
        | {f"certificate{n}": certificate for n in range(certificates)},
    }


def _package(number: int) -> dict[str, Any]:
    return {"SignerID": f"{number:064x}", "ProductID": number, "SecurityVersion": 1}


def _marble(number: int, packages: int, keys: int) -> dict[str, Any]:
    key = f"{{{{ hex .Secrets.key{number % keys} }}}}"
    return {
        "Package": f"package-{number % packages}",
        "Parameters": {"Argv": ["./app"], "Env": {"APP_KEY": key, "APP_MODE": "production"}},
    }


def envelope(manifest: bytes) -> bytes:
    """Return the body of ``POST /api/v2/manifest``."""
    return msgspec.json.encode({"manifest": base64.b64encode(manifest).decode("ascii")})


def upload_chunks(count: int) -> list[bytes]:
    """Return bodies of ``POST /api/v2/secrets``; together they set all ``count`` secrets."""
    return [_upload(range(begin, min(begin + _CHUNK, count))) for begin in range(0, count, _CHUNK)]


def upload_bodies(count: int) -> bytes:
    """Return 20,000 lines. Each line is a body with a new random key for one of the secrets."""
    return b"\n".join(_upload(range(n % count, n % count + 1)) for n in range(_UPLOAD_LINES))


def read_target(number: int) -> str:
    """Return the path and query to read a secret."""
    return f"/api/v2/secrets?s={secret_name(number)}"


def read_targets(count: int) -> bytes:
    """Return lines with path and query, one for each of ``count`` secrets."""
    return "\n".join(read_target(number) for number in range(count)).encode("ascii")


def _upload(numbers: range) -> bytes:
    key_bytes = _KEY_BITS // 8
    return msgspec.json.encode(
        {
            "secrets": {
                secret_name(number): {
                    "key": base64.b64encode(secrets.token_bytes(key_bytes)).decode("ascii")
                }
                for number in numbers
            }
        }
    )
