"""The line of a root in a mirror of its transparency log: the file ``line``.

A recovery needs the quotes of the line, and no leaf of the log names them. So a mirror has this
file. Each entry of the line is a JSON object in canonical form (RFC 8785) on a line of text. The
objects name files of the mirror. The file needs no signature: each entry has the hash of the
previous entry, each file is named by its hash, and a starting coordinator verifies the quotes.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec

from keyhouse.transparency.canonical import HashOrNone, canonical, read_canonical
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.line import MOST_ENTRIES, RootLine, chained

LINE_FILE: Final = "line"
"""Name of the file in a mirror."""


class MirroredEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the line in base64, and the names of its quote and its collateral.

    An empty name: the entry has no such object.
    """

    entry: str
    quote: HashOrNone = ""
    collateral: HashOrNone = ""


class MirroredLine(msgspec.Struct, frozen=True):
    """A line, and the names of the objects that prove its entries."""

    line: RootLine
    items: tuple[MirroredEntry, ...]

    @classmethod
    def of(cls, items: Sequence[MirroredEntry]) -> "MirroredLine":
        """Return the line of a root with the entries ``items`` of a mirror.

        Raises ``LogInvalidError`` for an entry that is not base64, and for entries that are not a
        line (``chained``).
        """
        try:
            raw = [base64.b64decode(each.entry, validate=True) for each in items]
        except (binascii.Error, ValueError):
            raise LogInvalidError("an entry of the line is not base64") from None
        return cls(chained(raw), tuple(items))

    def encode(self) -> bytes:
        """Return the bytes of the file ``line``."""
        return b"".join(canonical(each) + b"\n" for each in self.items)

    def proofs(self) -> Iterator[str]:
        """Yield the names of the quotes and of their bundles of collateral."""
        yield from (name for each in self.items for name in (each.quote, each.collateral) if name)

    def continues(self, before: "MirroredLine") -> bool:
        """Return whether this line begins with all entries of ``before``, an earlier copy."""
        return self.line.continues(len(before.line.raw), before.line.last_hash)


@cache
def _decoder() -> "msgspec.json.Decoder[MirroredEntry]":
    return msgspec.json.Decoder(MirroredEntry)


def read_mirrored_line(raw: bytes) -> MirroredLine:
    """Return the line in ``raw``, the bytes of the file ``line``. Raises ``LogInvalidError``."""
    lines = raw.split(b"\n", MOST_ENTRIES + 1)
    items = [read_canonical(each, _decoder()) for each in lines[:-1]]
    found = [each for each in items if each is not None]
    if lines[-1] or len(found) != len(items):
        raise LogInvalidError("the file line of the mirror is not in the form that Keyhouse writes")
    return MirroredLine.of(found)
