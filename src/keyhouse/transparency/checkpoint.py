"""Checkpoints (C2SP tlog-checkpoint): the text about a tree that the key of a log signs."""

import re
from base64 import b64encode
from typing import Final

import msgspec

from keyhouse.base.errors import BadRequestError
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.tree import HASH_BYTES, LARGEST
from keyhouse.wire.base64_text import decode_base64

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
