"""Keys that sign notes: of logs (Ed25519), of witnesses (cosignatures with a time).

Sources: C2SP signed-note (type 0x01, verifier keys), tlog-cosignature (types 0x04 and
0x06), tlog-witness (what a witness answers).
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

from keyhouse.base.errors import BadRequestError
from keyhouse.transparency.checkpoint import Checkpoint
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.note import (
    KEY_ID_BYTES,
    Signature,
    SignedNote,
    read_signatures,
    require_key_name,
)
from keyhouse.wire.base64_text import decode_base64

ED25519: Final = 1
"""Signs the text of a note: the key of a log."""

COSIGNED: Final = 4
"""Ed25519 over a time and a checkpoint: the key of a witness."""

COSIGNED_MLDSA44: Final = 6
"""ML-DSA-44 over names, a time and a checkpoint: the key of a witness."""

_KEY_BYTES: Final = {ED25519: 32, COSIGNED: 32, COSIGNED_MLDSA44: 1312}
_TIME_BYTES: Final = 8
_MOST_TIME: Final = 2**63 - 1
_NAME_BYTES: Final = 255

ANSWER_BYTES: Final = 16 * 1024
"""Bytes of the longest answer of a witness that is read: four cosignatures of ML-DSA-44."""


class VerifierKey(msgspec.Struct, frozen=True):
    """The public key that a signature line of a note names. ``kind``: one of the three above."""

    name: str
    kind: int
    public: bytes

    @classmethod
    def read(cls, text: str) -> "VerifierKey":
        """Return the key in ``text``: name, key id in hex, type and key in base64, joined by +.

        Raises ``LogInvalidError`` for another type, and for a key id that is not of this key.
        """
        name, *rest = text.split("+", 2)
        require_key_name(name)
        try:
            raw = decode_base64(rest[1]) if len(rest) == 2 else b""  # noqa: PLR2004 id and key
        except BadRequestError:
            raw = b""
        if not raw or _KEY_BYTES.get(raw[0]) != len(raw) - 1:
            raise LogInvalidError("a verifier key has no public key of a known type in base64")
        found = cls(name, raw[0], raw[1:])
        if str(found) != text:
            raise LogInvalidError("the key id of a verifier key is not that of its key")
        return found

    @property
    def key_id(self) -> bytes:
        """The 4 bytes that signature lines carry: no secret, and no proof of anything."""
        raw = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(raw).digest()[:KEY_ID_BYTES]

    def __str__(self) -> str:
        encoded = b64encode(bytes([self.kind]) + self.public).decode("ascii")
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    def made(self, line: Signature) -> bool:
        """Tell whether ``line`` names this key. It proves nothing."""
        return (line.name, line.key_id) == (self.name, self.key_id)

    def verify(self, text: bytes, raw: bytes) -> int:
        """Return the time of the signature ``raw`` over ``text``, in s since 1970; 0 of a log.

        Raises ``LogInvalidError`` if it does not hold, or is a cosignature without a time: such a
        one does not say that the checkpoint was the newest.
        """
        time = 0 if self.kind == ED25519 else int.from_bytes(raw[:_TIME_BYTES], "big")
        if self.kind != ED25519 and not 0 < time <= _MOST_TIME:
            raise LogInvalidError("a cosignature has no time")
        try:
            if self.kind == ED25519:
                Ed25519PublicKey.from_public_bytes(self.public).verify(raw, text)
            else:
                self._verify_cosignature(text, time, raw[_TIME_BYTES:])
        except (InvalidSignature, ValueError):
            raise LogInvalidError("a signature of a known key does not hold") from None
        return time

    def _verify_cosignature(self, text: bytes, time: int, raw: bytes) -> None:
        checkpoint = Checkpoint.read(text)
        if self.kind == COSIGNED:
            message = b"cosignature/v1\ntime %d\n%b" % (time, text)
            Ed25519PublicKey.from_public_bytes(self.public).verify(raw, message)
            return
        message = b"".join(
            (
                b"subtree/v1\n\0",
                _short(self.name),
                time.to_bytes(8, "big"),
                _short(checkpoint.origin),
                bytes(8),  # the first leaf of the subtree: a checkpoint is about the whole tree
                checkpoint.size.to_bytes(8, "big"),
                checkpoint.root,
            )
        )
        MLDSA44PublicKey.from_public_bytes(self.public).verify(raw, message)


def signature_of(key: Ed25519PrivateKey, verifier: VerifierKey, text: bytes) -> Signature:
    """Return the signature line of a log over the ``text`` of a note."""
    return Signature(verifier.name, verifier.key_id, key.sign(text))


def verified(note: SignedNote, keys: Iterable[VerifierKey]) -> dict[VerifierKey, int]:
    """Return which of ``keys`` signed ``note``, with the latest time of each (0 of a log).

    Signatures of other keys are ignored. Raises ``LogInvalidError`` if a signature of one of
    ``keys`` does not hold, or none of them signed.
    """
    known = {(key.name, key.key_id): key for key in keys}
    found: dict[VerifierKey, int] = {}
    for line in note.signatures:
        key = known.get((line.name, line.key_id))
        if key is not None:
            found[key] = max(key.verify(note.text, line.raw), found.get(key, 0))
    if not found:
        raise LogInvalidError("no known key has signed the note")
    return found


def signed_checkpoint(note: bytes, log: VerifierKey) -> Checkpoint:
    """Return the checkpoint in the signed ``note``, which the key of its log has signed.

    Raises ``LogInvalidError``.
    """
    signed = SignedNote.read(note)
    verified(signed, [log])
    found = Checkpoint.read(signed.text)
    if found.origin != log.name:
        raise LogInvalidError("the checkpoint is one of another log")
    return found


def _short(text: str) -> bytes:
    """Return ``text`` behind its length in one byte."""
    raw = text.encode()
    if not 0 < len(raw) <= _NAME_BYTES:
        raise LogInvalidError(f"a name that ML-DSA-44 cosigns has 1 to {_NAME_BYTES} bytes")
    return bytes([len(raw)]) + raw


def cosigned(note: SignedNote, answer: bytes, witness: VerifierKey) -> SignedNote:
    """Return ``note`` with the cosignature that ``witness`` answered, or a later one that it had.

    Signatures of other keys in the answer are left out. Raises ``LogInvalidError`` unless the
    answer is lines of signatures, with at least one of ``witness``, and all of these hold.
    """
    if len(answer) > ANSWER_BYTES:
        raise LogInvalidError(f"an answer of more than {ANSWER_BYTES} bytes is not read")
    answered = SignedNote(note.text, read_signatures(answer))
    verified(answered, [witness])
    own = [line for line in (*note.signatures, *answered.signatures) if witness.made(line)]
    newest = max(own, key=lambda line: witness.verify(note.text, line.raw))
    others = (line for line in note.signatures if not witness.made(line))
    return SignedNote(note.text, (*others, newest))
