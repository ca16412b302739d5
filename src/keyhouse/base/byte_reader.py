"""Reads binary layouts from the first byte to the last: fields of known sizes, and DER (X.690).

``der_elements``, ``element`` and ``unsigned`` replace calls of a library that is slow, or that has
no limits for hostile input.
"""

from collections.abc import Iterator
from typing import Final, Literal


class LayoutError(ValueError):
    """The bytes do not have the expected layout. The error names a part, but shows no bytes."""


class ByteReader:
    """Reads the fields in the bytes ``raw``, from start to end.

    Each call has a ``part``: the name of a field, for the text of an error.
    """

    def __init__(self, raw: bytes, byteorder: Literal["big", "little"]) -> None:
        self._raw = raw
        self._byteorder = byteorder
        self.position = 0

    def read(self, length: int, part: str) -> bytes:
        """Return the next ``length`` bytes, the field ``part``.

        Raises ``LayoutError`` if fewer bytes are left.
        """
        end = self.position + length
        if end > len(self._raw):
            raise LayoutError(f"the data end inside the {part}")
        value = self._raw[self.position : end]
        self.position = end
        return value

    def number(self, length: int, part: str) -> int:
        """Return the field ``part``, an unsigned integer of ``length`` bytes.

        The reader was created with the byte order.
        """
        return int.from_bytes(self.read(length, part), self._byteorder)

    def framed(self, size: int, part: str) -> bytes:
        """Read a length, a number of ``size`` bytes; return so many bytes, the field ``part``."""
        return self.read(self.number(size, part), part)

    def finish(self, part: str) -> None:
        """Raise ``LayoutError`` if unread bytes are left. ``part`` is the last field."""
        if left := len(self._raw) - self.position:
            raise LayoutError(f"{left} bytes follow the {part}")


_LONG: Final = 0x80  # X.690, 8.1.3.5: the long form of a length
_MOST_LENGTH_BYTES: Final = 4  # after the first byte of a length


def der_elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element in ``content``, in order.

    Tags have one byte. Raises ``ValueError`` for a truncated element, and for a length with more
    octets than necessary. BER permits such lengths, but DER has one form. Source: X.690, 8.1, 10.1.
    """
    at = 0
    while at < len(content):
        begin = at + 2
        length = int.from_bytes(content[at + 1 : begin])
        if length & _LONG:
            octets = length ^ _LONG
            if not 0 < octets <= _MOST_LENGTH_BYTES:
                raise ValueError("the length of a DER element is invalid")
            begin, length = begin + octets, int.from_bytes(content[begin : begin + octets])
            if length < _LONG or length.bit_length() <= 8 * (octets - 1):
                raise ValueError("the length of a DER element has more octets than necessary")
        tag, at = content[at], begin + length
        if at > len(content):
            raise ValueError("the DER element is truncated")
        yield tag, content[begin:at]


def element(tag: int, *contents: bytes) -> bytes:
    """Return the element with ``tag`` (one byte) around ``contents``, in order."""
    content = b"".join(contents)
    length = len(content)
    if length < _LONG:
        return bytes((tag, length)) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, _LONG | len(octets))) + octets + content


def unsigned(number: int) -> bytes:
    """Return ``number``, 0 or more, as an INTEGER in DER."""
    return element(0x02, number.to_bytes(number.bit_length() // 8 + 1))
