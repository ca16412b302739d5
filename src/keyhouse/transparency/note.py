"""Signed notes (C2SP signed-note): a text, and lines with signatures over the text.

The text of a checkpoint (C2SP tlog-checkpoint) is about a tree, and the key of a log signs it.
"""

import re
from base64 import b64encode
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequestError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.tree import HASH_BYTES, LARGEST
from keyhouse.wire.base64_text import decode_base64

MOST_BYTES: Final = 256 * 1024
"""Maximum length in bytes of a note. 16 signatures of 5 KB fit, as the specification requires."""

MOST_SIGNATURES: Final = 64  # of one note, chosen: a policy has at most 32 witnesses
KEY_ID_BYTES: Final = 4  # C2SP signed-note

_DASH: Final = "\N{EM DASH} "
_FIRST_PRINTED: Final = " "


class NoteSignature(msgspec.Struct, frozen=True):
    """A signature line. ``key_id`` has 4 bytes; ``raw`` is the output of the algorithm."""

    name: str
    key_id: bytes
    raw: bytes

    def encode(self) -> bytes:
        """Return the signature line, with its newline."""
        data = b64encode(self.key_id + self.raw).decode("ascii")
        return f"{_DASH}{self.name} {data}\n".encode()


class SignedNote(msgspec.Struct, frozen=True):
    """A parsed note. No signature is verified. ``text`` ends with a newline."""

    text: bytes
    signatures: tuple[NoteSignature, ...]

    def encode(self) -> bytes:
        """Return the bytes of the signed note."""
        return self.text + b"\n" + b"".join(line.encode() for line in self.signatures)

    @classmethod
    def read(cls, raw: bytes) -> "SignedNote":
        """Return the note in ``raw``. Raises ``LogInvalidError`` for a text in a different form."""
        if len(raw) > MOST_BYTES:
            raise LogInvalidError(f"the signed note has more than {MOST_BYTES} bytes")
        try:
            decoded = raw.decode()
        except UnicodeDecodeError:
            raise LogInvalidError("the signed note is not UTF-8") from None
        if any(char < _FIRST_PRINTED and char != "\n" for char in set(decoded)):
            raise LogInvalidError("the signed note has a control character")
        text, separator, lines = decoded.rpartition("\n\n")
        if not separator or not lines.endswith("\n"):
            raise LogInvalidError("the signed note does not end with lines of signatures")
        return cls(f"{text}\n".encode(), _signatures(lines))


def read_signatures(raw: bytes) -> tuple[NoteSignature, ...]:
    """Return the signature lines in ``raw``, at least one. Raises ``LogInvalidError``."""
    try:
        lines = raw.decode()
    except UnicodeDecodeError:
        raise LogInvalidError("the signature lines of the note are not UTF-8") from None
    if not lines.endswith("\n"):
        raise LogInvalidError("the signature lines of the note do not end with a newline")
    return _signatures(lines)


def require_key_name(name: str) -> None:
    """Raise ``LogInvalidError`` unless ``name`` is a valid name of a key."""
    if not name or "+" in name or any(char.isspace() or char < _FIRST_PRINTED for char in name):
        raise LogInvalidError("the name of a log or witness is empty, or has a space or a plus")
    try:
        name.encode()
    except UnicodeEncodeError:  # a lone surrogate, from an argument that is not UTF-8
        raise LogInvalidError("the name of a log or witness cannot be encoded as UTF-8") from None


def _signatures(lines: str) -> tuple[NoteSignature, ...]:
    """Return the signatures in ``lines``. The last line must end with a newline, too."""
    signature_lines = lines[:-1].split("\n")
    if len(signature_lines) > MOST_SIGNATURES:
        raise LogInvalidError(f"the signed note has more than {MOST_SIGNATURES} signatures")
    return tuple(map(_signature, signature_lines))


def _signature(line: str) -> NoteSignature:
    if not line.startswith(_DASH):
        raise LogInvalidError("a signature line of the note does not begin with a dash")
    name, space, data = line[len(_DASH) :].partition(" ")
    require_key_name(name)
    try:
        raw = decode_base64(data)
    except BadRequestError:
        raw = b""
    if not space or len(raw) <= KEY_ID_BYTES:
        raise LogInvalidError("a signature line of the note has no signature in base64")
    return NoteSignature(name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:])


_SIZE: Final = r"0|[1-9][0-9]{0,18}"


class Checkpoint(msgspec.Struct, frozen=True):
    """A tree of a log: origin, size and root. Keyhouse writes no extension lines."""

    origin: str
    size: int
    root: bytes

    def encode(self) -> bytes:
        """Return the text of the note: three lines."""
        root = b64encode(self.root).decode("ascii")
        return f"{self.origin}\n{self.size}\n{root}\n".encode()

    @classmethod
    def read(cls, text: bytes) -> "Checkpoint":
        """Return the checkpoint in the ``text`` of a note. Lines after the third are ignored.

        Raises ``LogInvalidError`` for any spelling except the canonical one.
        """
        try:
            lines = text.decode().split("\n")
        except UnicodeDecodeError:
            raise LogInvalidError("the checkpoint is not UTF-8") from None
        if len(lines) <= 3 or lines.pop() or "" in lines:  # noqa: PLR2004 from the specification
            raise LogInvalidError("the checkpoint has fewer than three lines, or an empty line")
        origin, size, encoded = lines[:3]
        try:
            root = decode_base64(encoded)
        except BadRequestError:
            root = b""
        if not re.fullmatch(_SIZE, size) or int(size) > LARGEST or len(root) != HASH_BYTES:
            raise LogInvalidError(
                "the checkpoint has an invalid size, or no root of 32 bytes in base64"
            )
        return cls(origin, int(size), root)
