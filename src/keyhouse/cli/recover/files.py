"""Read the files of the recovery commands: shares, signatures, keys and certificates."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from keyhouse.base.errors import BadRequestError, InvalidError, RefusedError
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret
from keyhouse.base.user_files import read_file
from keyhouse.cli.output.files import reading
from keyhouse.client import RecoveryKey
from keyhouse.client.pem_faults import certificate_fault
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.client_api import SetManifestData
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.json_parser import read_json

PLAIN_SIZES: Final = frozenset({32, 33})
"""Sizes of a decrypted share in bytes."""

_OF_MANIFESTS: Final = frozenset({"Packages", "Marbles"})
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/\r\n]+={0,2}[\r\n]*")


class ShareUnreadableError(RefusedError):
    """The content of a file for a recovery command is unusable."""

    code = "share-unreadable"


def shares_in(file: Path) -> dict[str, bytes]:
    """Return the recovery secrets in ``file`` by the names of their recovery keys.

    The file is JSON with several secrets, or has a single secret in binary or base64. The name of a
    single secret is "". Raises ``ShareUnreadableError``, ``FileUnreadableError`` or
    ``FileInvalidError``.
    """
    with reading(str(file), is_secret=True) as raw:
        if not raw.lstrip().startswith(b"{"):
            return {"": _decoded(raw)}
        _require_no_manifest(file, raw)
        shares = decode(raw, SetManifestData).recovery_secrets
    if not shares:
        raise ShareUnreadableError(
            f"{file} has no recovery secrets",
            hint='pass the file of --recoverydata: {"RecoverySecrets": {NAME: base64}}',
        )
    return shares


def _require_no_manifest(file: Path, raw: bytes) -> None:
    """Raise ``ShareUnreadableError`` if ``raw``, the content of ``file``, is a manifest.

    A user may confuse the manifest with the file of the recovery secrets.
    """
    with suppress(BadRequestError, InvalidError):
        fields = read_json(raw)
        if isinstance(fields, dict) and _OF_MANIFESTS & fields.keys():
            raise ShareUnreadableError(
                f"{file} is a manifest, not the file of the recovery secrets",
                hint="name the file of --recoverydata, such as recovery.json",
            )


def select_share(shares: dict[str, bytes], name: str) -> bytes:
    """Return the recovery secret ``name`` of ``shares``; with "" for ``name``, the only secret.

    Raises ``ShareUnreadableError``.
    """
    if name in shares:
        return shares[name]
    if not name and len(shares) == 1:
        return next(iter(shares.values()))
    names = ", ".join(quoted(known) for known in sorted(shares) if known)
    if not names:
        raise ShareUnreadableError(
            "the file has a single recovery secret without a name", hint="omit --name"
        )
    raise ShareUnreadableError(
        f"the file has no recovery secret {quoted(name)}"
        if name
        else f"the file has {len(shares)} recovery secrets, and no --name selects one of them",
        hint=f"pass --name with one of: {names}",
    )


def plain_share(secret: bytes, key: RecoveryKey | None) -> Secret:
    """Decrypt the recovery secret ``secret`` with the holder's ``key``; return the share.

    A secret of 32 or 33 bytes is a decrypted share already, and needs no key. Raises
    ``ShareUnreadableError`` if ``key`` is None, and the errors of the key.
    """
    if len(secret) in PLAIN_SIZES:
        return Secret(secret)
    if key is None:
        raise ShareUnreadableError(
            "the recovery secret is encrypted, and no option names the key for it",
            hint="pass the holder's key: --key or --pkcs11-config",
        )
    return key.decrypt(secret)


def signature_in(file: Path) -> bytes:
    """Return the signature in ``file``, binary or base64."""
    return _decoded(read_file(str(file)))


def certificate(file: Path) -> bytes:
    """Return the last certificate (DER) in the PEM file ``file``: in a chain, this is the root.

    Raises ``ShareUnreadableError`` and ``FileUnreadableError``.
    """
    content = read_file(str(file))
    try:
        last = x509.load_pem_x509_certificates(content)[-1]
    except ValueError:
        fault = certificate_fault(content)
        raise ShareUnreadableError(f"{file} {fault.problem}", hint=fault.hint) from None
    return last.public_bytes(Encoding.DER)


def public_key(file: Path) -> bytes:
    """Return the public key (SubjectPublicKeyInfo DER) in the PEM file ``file``.

    Raises ``ShareUnreadableError`` and ``FileUnreadableError``.
    """
    try:
        key = load_pem_public_key(read_file(str(file)))
    except (ValueError, UnsupportedAlgorithm):
        raise ShareUnreadableError(
            f"{file} is not a PEM public key",
            hint="create the file with keyhouse recover public-key -o FILE",
        ) from None
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _decoded(raw: bytes) -> bytes:
    """Return ``raw`` decoded from base64, or unchanged if ``raw`` is not base64.

    ``raw`` is a share or a signature. Random bytes of this size are practically never base64.
    """
    if _BASE64.fullmatch(raw):
        try:
            return decode_base64(raw.decode("ascii"))
        except BadRequestError:
            return raw
    return raw
