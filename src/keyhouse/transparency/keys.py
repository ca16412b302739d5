"""Keys for notes: keys of logs (Ed25519), and keys of witnesses (cosignatures with a time).

Sources: C2SP signed-note (type 0x01, verifier keys), tlog-cosignature (types 0x04 and 0x06),
tlog-witness (the answer of a witness).
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
from keyhouse.base.printable import quoted
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.note import (
    KEY_ID_BYTES,
    Checkpoint,
    NoteSignature,
    SignedNote,
    read_signatures,
    require_key_name,
)
from keyhouse.wire.base64_text import decode_base64

ED25519: Final = 1
"""The type of a log's key: Ed25519 over the text of a note."""

COSIGNED: Final = 4
"""The type of a witness's key: Ed25519 over a time and a checkpoint."""

COSIGNED_MLDSA44: Final = 6
"""The type of a witness's key: ML-DSA-44 over names, a time and a checkpoint."""

_KEY_BYTES: Final = {ED25519: 32, COSIGNED: 32, COSIGNED_MLDSA44: 1312}
_TIME_BYTES: Final = 8  # C2SP tlog-cosignature: a 64-bit time
_MOST_TIME: Final = 2**63 - 1  # C2SP tlog-cosignature: times are below 2^63
_NAME_BYTES: Final = 255  # C2SP tlog-cosignature: one byte states the length of the name

ANSWER_BYTES: Final = 16 * 1024
"""Maximum length in bytes of a witness's answer: four cosignatures of ML-DSA-44 fit."""


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key of a log or of a witness. The signature lines of notes name the key.

    ``kind``: the type of the key: 0x01, 0x04 or 0x06, as in the sources.
    """

    name: str
    kind: int
    public: bytes

    @classmethod
    def read(cls, text: str) -> "VerifierKey":
        """Return the key in ``text``: name, key id in hex, and base64 of type and key, joined by +.

        Raises ``LogInvalidError`` for an unknown type, and for a key id that does not fit the key.
        """
        name, *rest = text.split("+", 2)
        require_key_name(name)
        try:
            raw = decode_base64(rest[1]) if len(rest) == 2 else b""  # noqa: PLR2004 id and key
        except BadRequestError:
            raw = b""
        if not raw or _KEY_BYTES.get(raw[0]) != len(raw) - 1:
            raise LogInvalidError(
                f"the key of {quoted(name)} has no public key of a known type in base64"
            )
        checkpoint = cls(name, raw[0], raw[1:])
        if str(checkpoint) != text:
            raise LogInvalidError(
                f"the key id in the key of {quoted(name)} does not match the public key"
            )
        return checkpoint

    @property
    def key_id(self) -> bytes:
        """The 4 bytes that stand for the key in signature lines. The id is public, not a proof."""
        raw = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(raw).digest()[:KEY_ID_BYTES]

    def __str__(self) -> str:
        encoded = b64encode(bytes([self.kind]) + self.public).decode("ascii")
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    def is_named_by(self, line: NoteSignature) -> bool:
        """Return whether the signature ``line`` names this key. Only ``verify`` proves the key."""
        return (line.name, line.key_id) == (self.name, self.key_id)

    def verify(self, text: bytes, raw: bytes) -> int:
        """Verify the signature ``raw`` over ``text``, and return its time (s since 1970).

        The signature of a log has no time, so the result is 0. Raises ``LogInvalidError`` for an
        invalid signature, and for a cosignature without a time. Such a cosignature does not state
        that the checkpoint was the newest checkpoint of the witness.
        """
        time = 0 if self.kind == ED25519 else int.from_bytes(raw[:_TIME_BYTES], "big")
        if self.kind != ED25519 and not 0 < time <= _MOST_TIME:
            raise LogInvalidError(f"the cosignature of the witness {quoted(self.name)} has no time")
        try:
            if self.kind == ED25519:
                Ed25519PublicKey.from_public_bytes(self.public).verify(raw, text)
            else:
                self._verify_cosignature(text, time, raw[_TIME_BYTES:])
        except (InvalidSignature, ValueError):
            raise LogInvalidError(f"the signature of {quoted(self.name)} does not verify") from None
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
                _with_length(self.name),
                time.to_bytes(8, "big"),
                _with_length(checkpoint.origin),
                bytes(8),  # first leaf of the subtree: 0, as a checkpoint covers the whole tree
                checkpoint.size.to_bytes(8, "big"),
                checkpoint.root,
            )
        )
        MLDSA44PublicKey.from_public_bytes(self.public).verify(raw, message)


def signature_of(key: Ed25519PrivateKey, verifier: VerifierKey, text: bytes) -> NoteSignature:
    """Sign ``text``, the text of a note, with the log's ``key``. Return the signature line.

    The line names the key by name and key id of ``verifier``, the public half of ``key``.
    """
    return NoteSignature(verifier.name, verifier.key_id, key.sign(text))


def verified(note: SignedNote, keys: Iterable[VerifierKey]) -> dict[VerifierKey, int]:
    """Return the keys among ``keys`` that signed ``note``, each with its latest time (0 for a log).

    Signatures of unknown keys are ignored. Raises ``LogInvalidError`` for an invalid signature of a
    known key, and for a note without a signature of a known key.
    """
    known = {(key.name, key.key_id): key for key in keys}
    checkpoint: dict[VerifierKey, int] = {}
    for line in note.signatures:
        key = known.get((line.name, line.key_id))
        if key is not None:
            checkpoint[key] = max(key.verify(note.text, line.raw), checkpoint.get(key, 0))
    if not checkpoint:
        raise LogInvalidError("no known key has signed the note")
    return checkpoint


def signed_checkpoint(note: bytes, log: VerifierKey) -> Checkpoint:
    """Return the checkpoint in ``note`` after a check of its signature and its origin.

    ``log``: the key of the log. Raises ``LogInvalidError`` if ``log`` has not signed the note, or
    if the checkpoint belongs to a different log.
    """
    signed = SignedNote.read(note)
    verified(signed, [log])
    checkpoint = Checkpoint.read(signed.text)
    if checkpoint.origin != log.name:
        raise LogInvalidError(
            f"the checkpoint belongs to the log {quoted(checkpoint.origin)}, expected"
            f" {quoted(log.name)}"
        )
    return checkpoint


def _with_length(text: str) -> bytes:
    """Return a byte with the length of ``text`` in UTF-8, then ``text``.

    Raises ``LogInvalidError`` for an empty text, and for more than 255 bytes.
    """
    raw = text.encode()
    if not 0 < len(raw) <= _NAME_BYTES:
        raise LogInvalidError(
            f"the name {quoted(text)} of a log or witness has {len(raw)} bytes; a cosignature with"
            f" ML-DSA-44 allows 1 to {_NAME_BYTES}"
        )
    return bytes([len(raw)]) + raw


def cosigned(note: SignedNote, answer: bytes, witness: VerifierKey) -> SignedNote:
    """Return ``note`` with the newest cosignature of ``witness``, from ``answer`` or from ``note``.

    ``answer``: the witness's answer, lines of signatures. Signatures by further keys in the answer
    are dropped. Raises ``LogInvalidError`` for an answer in a different form, without a signature
    of ``witness``, or with an invalid signature of ``witness``.
    """
    if len(answer) > ANSWER_BYTES:
        raise LogInvalidError(f"the answer of the witness has more than {ANSWER_BYTES} bytes")
    answered = SignedNote(note.text, read_signatures(answer))
    verified(answered, [witness])
    own = [line for line in (*note.signatures, *answered.signatures) if witness.is_named_by(line)]
    newest = max(own, key=lambda line: witness.verify(note.text, line.raw))
    others = (line for line in note.signatures if not witness.is_named_by(line))
    return SignedNote(note.text, (*others, newest))
