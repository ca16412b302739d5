"""What the recovery commands read: encrypted or plain shares, signatures, keys and certificates."""

import re
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from keyhouse.base.errors import BadRequestError, RefusedError
from keyhouse.base.named_files import read_file
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret
from keyhouse.cli.output.files import reading
from keyhouse.client import RecoveryKey
from keyhouse.client.pem_faults import certificate_fault
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.client_api import SetManifestData
from keyhouse.wire.json_decoder import decode

PLAIN_SIZES: Final = frozenset({32, 33})
"""Bytes of a decrypted share."""

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/\r\n]+={0,2}[\r\n]*")


class ShareUnreadableError(RefusedError):
    """A file of the recovery does not hold what it should."""

    code = "share-unreadable"


def shares_in(file: Path) -> dict[str, bytes]:
    """Return what ``file`` holds by names of keys; a file with one secret alone has the name "".

    Raises ``ShareUnreadableError``, ``FileUnreadableError`` or ``FileInvalidError``.
    """
    with reading(str(file), is_secret=True) as raw:
        if not raw.lstrip().startswith(b"{"):
            return {"": _decoded(raw)}
        found = decode(raw, SetManifestData).recovery_secrets
    if not found:
        raise ShareUnreadableError(
            f"{file} holds no recovery secrets",
            hint='a JSON file of them is {"RecoverySecrets": {NAME: base64}}',
        )
    return found


def chosen(shares: dict[str, bytes], name: str) -> bytes:
    """Return the secret under ``name``, or the only one. Raises ``ShareUnreadableError``."""
    if name in shares:
        return shares[name]
    if not name and len(shares) == 1:
        return next(iter(shares.values()))
    names = ", ".join(quoted(known) for known in sorted(shares) if known)
    if not names:
        raise ShareUnreadableError(
            "the file holds one secret without a name", hint="leave out --name"
        )
    raise ShareUnreadableError(
        f"the file holds no recovery secret {quoted(name)}"
        if name
        else "the file holds several recovery secrets",
        hint=f"--name one of: {names}",
    )


def plain_share(secret: bytes, key: RecoveryKey | None) -> Secret:
    """Return the decrypted share of what a file held. Raises ``ShareUnreadableError``."""
    if len(secret) in PLAIN_SIZES:
        return Secret(secret)
    if key is None:
        raise ShareUnreadableError(
            "the recovery secret is encrypted",
            hint="name the holder's --key, or its token: --pkcs11-config",
        )
    return key.decrypt(secret)


def signature_in(file: Path) -> bytes:
    """Return the signature in ``file``, as it is or in base64."""
    return _decoded(read_file(str(file)))


def certificate(file: Path) -> bytes:
    """Return the last certificate (DER) of a PEM file: the root, if it is a chain."""
    content = read_file(str(file))
    try:
        found = x509.load_pem_x509_certificates(content)[-1]
    except ValueError:
        fault = certificate_fault(content)
        raise ShareUnreadableError(f"{file} {fault.problem}", hint=fault.hint) from None
    return found.public_bytes(Encoding.DER)


def public_key(file: Path) -> bytes:
    """Return the public key (SubjectPublicKeyInfo DER) of a PEM file."""
    try:
        found = load_pem_public_key(read_file(str(file)))
    except (ValueError, UnsupportedAlgorithm):
        raise ShareUnreadableError(
            f"{file} holds no PEM public key", hint="keyhouse recover public-key -o FILE writes it"
        ) from None
    return found.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _decoded(raw: bytes) -> bytes:
    """Return ``raw``, or what it is base64 of: random bytes are never base64 by accident."""
    if _BASE64.fullmatch(raw):
        try:
            return decode_base64(raw.decode("ascii"))
        except BadRequestError:
            return raw
    return raw
