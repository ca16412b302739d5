"""Describes the secrets of a manifest for people, and reads uploads of secrets from files."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from keyhouse.base.errors import InvalidError, NotFoundError, RefusedError
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret
from keyhouse.client import SecretUpload
from keyhouse.manifest import Action, Manifest
from keyhouse.wire.json_decoder import read, resembling
from keyhouse.wire.secret_types import SecretDefinition, SecretType, UserSecret


class DescribedSecret(msgspec.Struct, frozen=True):
    """A secret as the manifest defines it, for lists of secrets.

    ``value`` is the origin of the value, for example "uploaded" or "generated". ``readers`` and
    ``writers`` are names of users.
    """

    name: str
    type: str
    # In bits, or 0 for a kind without a size.
    size: int
    value: str
    readers: tuple[str, ...]
    writers: tuple[str, ...]


def described_secrets(manifest: Manifest) -> tuple[DescribedSecret, ...]:
    """Return the secrets of ``manifest``, sorted by name."""
    may_read = _holders(manifest, Action.READ_SECRET)
    may_write = _holders(manifest, Action.WRITE_SECRET)
    return tuple(
        DescribedSecret(
            name,
            definition.type,
            definition.size,
            _origin(definition),
            may_read.get(name, ()),
            may_write.get(name, ()),
        )
        for name, definition in sorted(manifest.secrets.items())
    )


def _origin(definition: SecretDefinition) -> str:
    if definition.user_defined:
        return "uploaded" if definition.private is None else "in the manifest"
    if definition.shared:
        return "generated"
    return "derived" if definition.type is SecretType.SYMMETRIC_KEY else "issued"


def _holders(manifest: Manifest, action: Action) -> dict[str, tuple[str, ...]]:
    """Return for each secret the sorted names of the users with the permission ``action``."""
    holders: dict[str, set[str]] = {}
    for user, definition in manifest.users.items():
        for role in {name: manifest.roles[name] for name in definition.roles}.values():
            if action in role.actions:
                for name in role.resource_names:
                    holders.setdefault(name, set()).add(user)
    return {name: tuple(sorted(users)) for name, users in holders.items()}


def read_secret_file(content: bytes) -> dict[str, UserSecret]:
    """Parse uploads by name from JSON; bytes are base64.

    Raises ``UnreadableError``, or ``InvalidError`` with every problem. Unknown fields and repeated
    names are errors. Otherwise a user could believe that an ignored value was uploaded.
    """
    uploads = read(content, dict[str, UserSecret])
    if uploads.problems:
        raise InvalidError("the file of secrets", uploads.problems)
    return uploads.value


def upload_of(name: str, value: Secret, manifest: Manifest) -> SecretUpload:
    """Return the upload of ``value`` for the secret ``name``, as its type in ``manifest`` requires.

    Raises ``NotFoundError`` for an unknown name, and ``RefusedError`` for a generated secret or an
    empty value. Raises ``PemUnusableError`` if the type is a certificate and ``value`` is not a
    certificate.
    """
    definition = manifest.secrets.get(name)
    if definition is None:
        raise unknown_secret(
            name, [each for each, one in manifest.secrets.items() if one.user_defined]
        )
    if not definition.user_defined:
        raise RefusedError(
            f"the coordinator generates secret {quoted(name)}, so no user can upload its value",
            hint="name a secret with UserDefined in the manifest",
        )
    if definition.type.is_certificate:
        return read_pem_secret(value.reveal())
    if not len(value):
        raise RefusedError(
            f"the value of secret {quoted(name)} is empty", hint="upload at least one byte"
        )
    return SecretUpload(key=value)


def unknown_secret(name: str, known: Iterable[str]) -> NotFoundError:
    """Return the error for an unknown ``name``, with a similar name of ``known`` in the hint."""
    close = resembling(name, islice(known, _MOST_NAMES))
    hint = f"did you mean {close}?" if close else "keyhouse secret list prints all names"
    return NotFoundError(f"the manifest has no secret {quoted(name)}", hint=hint)


# The limit of names in the search for a similar name. A manifest can have many more names.
_MOST_NAMES: Final = 500
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_CERTIFICATE: Final = b"CERTIFICATE"
_KEYS: Final = frozenset({b"PRIVATE KEY", b"EC PRIVATE KEY", b"RSA PRIVATE KEY"})


class PemUnusableError(RefusedError):
    """The PEM file does not contain exactly one certificate and at most one private key."""

    code = "pem-unusable"


def read_pem_secret(content: bytes) -> SecretUpload:
    """Return the upload for the certificate in ``content``, with its key if ``content`` has a key.

    Raises ``PemUnusableError``. Messages contain no part of the file.
    """
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(content)]
    certificates = [block for label, block in blocks if label == _CERTIFICATE]
    keys = [block for label, block in blocks if label in _KEYS]
    known = len(certificates) + len(keys)
    if len(certificates) != 1 or len(keys) > 1 or known != len(blocks):
        raise PemUnusableError(
            f"the PEM file has {len(certificates)} certificates, {len(keys)} private keys and"
            f" {len(blocks) - known} other blocks",
            hint="pass a file with one certificate, and at most one private key without encryption",
        )
    return SecretUpload(
        cert=_certificate(certificates[0]), private=_private(keys[0]) if keys else None
    )


def _certificate(block: bytes) -> bytes:
    try:
        return x509.load_pem_x509_certificate(block).public_bytes(Encoding.DER)
    except ValueError:
        raise PemUnusableError(
            "the certificate in the PEM file cannot be read",
            hint="copy the file again, or issue the certificate again",
        ) from None


def _private(block: bytes) -> Secret:
    try:
        key = load_pem_private_key(block, password=None)
        return Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PemUnusableError(
            "the private key in the PEM file cannot be read",
            hint="pass a file with a private key without encryption",
        ) from None
