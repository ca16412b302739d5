"""Read ``SHA256SUMS`` of a release, and verify the signature over this file.

``SHA256SUMS`` has the form of the program ``sha256sum``. ``SHA256SUMS.note`` is a signed note
(C2SP signed-note, Ed25519). Its text has two lines, and then the bytes of ``SHA256SUMS``::

    keyhouse release v1
    version 0.1.0

The first line separates the signature from signatures of logs, which begin with an origin. The
second line binds the sums to a version, so old sums cannot stand for a new version.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

from keyhouse.base.errors import RefusedError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ED25519, VerifierKey, verified
from keyhouse.transparency.note import MOST_BYTES, SignedNote

SUMS: Final = "SHA256SUMS"
NOTE: Final = "SHA256SUMS.note"
BUNDLE: Final = "SHA256SUMS.sigstore.json"

UNLISTED: Final = frozenset({SUMS, NOTE, BUNDLE})
"""The files that the sums cannot contain: the sums themselves, and the signatures over them."""

_LINE: Final = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9][A-Za-z0-9._+-]*)")
_FETCH_ELSEWHERE: Final = "do not use the files; fetch all of them from another place"
_PUBLISHED_KEY: Final = "use the release key that the project publishes"
_CHUNK: Final = 1 << 20  # bytes of one read, chosen


def signed_text(version: str, sums: bytes) -> bytes:
    """Return the text that the key of a release signs, for ``version`` and ``sums``.

    ``sums`` are the bytes of ``SHA256SUMS``.
    """
    return f"keyhouse release v1\nversion {version}\n".encode() + sums


def read_sums(raw: bytes) -> dict[str, str]:
    """Return the SHA-256 sums (hex) in ``raw``, the content of ``SHA256SUMS``, by file name.

    Raises ``RefusedError`` for a malformed line, a path, and a name that appears twice.
    """
    found: dict[str, str] = {}
    text = raw.decode("utf-8", "replace")
    if not text.endswith("\n"):
        raise RefusedError(f"{SUMS} does not end with a newline", hint="fetch the file again")
    for number, line in enumerate(text[:-1].split("\n"), 1):
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise RefusedError(
                f"line {number} of {SUMS} is not a SHA-256 sum, two spaces and a file name",
                hint="fetch the file again",
            )
        if parts[2] in found:
            raise RefusedError(f"{SUMS} lists {parts[2]} twice", hint="fetch the file again")
        found[parts[2]] = parts[1]
    return found


def signed_version(sums: bytes, note: bytes, key: str) -> str:
    """Verify ``note``, the signature over ``sums``, under ``key``; return the signed version.

    ``sums`` and ``note`` are the contents of the files, and ``key`` is a verifier key (C2SP
    signed-note). Raises ``RefusedError`` for an unusable or different key, an invalid signature,
    and different sums.
    """
    verifier = _release_key(key)
    try:
        signed = SignedNote.read(note)
    except LogInvalidError as fault:
        raise RefusedError(f"{NOTE}: {fault.message}", hint=_FETCH_ELSEWHERE) from None
    try:
        verified(signed, [verifier])
    except LogInvalidError as fault:
        if not any(map(verifier.is_named_by, signed.signatures)):
            raise RefusedError(f"{NOTE}: {fault.message}", hint=_PUBLISHED_KEY) from None
        raise RefusedError(
            f"{NOTE}: {fault.message}: the text or the signature was changed, or --release-key"
            " names a different key",
            hint=_FETCH_ELSEWHERE,
        ) from None
    head = re.match(rb"keyhouse release v1\nversion ([0-9.]+)\n", signed.text)
    if head is None:
        raise RefusedError(
            f"{NOTE} is a signature over another text, not over a release of Keyhouse",
            hint="fetch the file again",
        )
    version = head[1].decode("ascii")
    if signed.text != signed_text(version, sums):
        raise RefusedError(
            f"{SUMS} differs from the signed sums: {SUMS} was changed, or belongs to another"
            " release",
            hint=_FETCH_ELSEWHERE,
        )
    return version


def _release_key(text: str) -> VerifierKey:
    """Return the verifier key (Ed25519) in ``text``. Raises ``RefusedError``."""
    try:
        verifier = VerifierKey.read(text.strip())
    except LogInvalidError as fault:
        raise RefusedError(f"the release key: {fault.message}", hint=_PUBLISHED_KEY) from None
    if verifier.kind != ED25519:
        raise RefusedError(
            "the release key is the key of a witness, expected an Ed25519 key for notes",
            hint=_PUBLISHED_KEY,
        )
    return verifier


def read_bounded(path: Path) -> bytes:
    """Return the content of ``path``, a file of sums or signatures.

    Raises ``RefusedError`` for an unreadable or too large file.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError:
        raise RefusedError(
            f"{path} cannot be read", hint="put all files of the release into this folder"
        ) from None
    if len(raw) > MOST_BYTES:
        raise RefusedError(f"{path} has more than {MOST_BYTES} bytes", hint="fetch the file again")
    return raw


def digest(path: Path) -> str:
    """Return the SHA-256 sum (hex) of a file. Raises ``OSError``."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()
