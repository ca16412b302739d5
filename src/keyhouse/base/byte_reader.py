"""Reads binary layouts from the first byte to the last: fields of known sizes, and DER (X.690).

The functions for single DER elements serve where a library has no bounds or is slow.
"""

from collections.abc import Iterator
from typing import Final, Literal


class LayoutError(ValueError):
    """The bytes do not have the layout. The error names the part, and shows none of the bytes."""


class ByteReader:
    """Reads ``raw`` from start to end. Errors name the ``part`` that a call reads."""

    def __init__(self, raw: bytes, byteorder: Literal["big", "little"]) -> None:
        self._raw = raw
        self._byteorder = byteorder
        self.position = 0

    def read(self, length: int, part: str) -> bytes:
        """Return the next ``length`` bytes, the field ``part`` of the layout.

        Raises ``LayoutError`` with the name ``part`` if there are fewer bytes.
        """
        end = self.position + length
        if end > len(self._raw):
            raise LayoutError(f"the data end inside the {part}")
        value = self._raw[self.position : end]
        self.position = end
        return value

    def number(self, length: int, part: str) -> int:
        """Return the unsigned integer ``part`` of ``length`` bytes, in the layout's order."""
        return int.from_bytes(self.read(length, part), self._byteorder)

    def framed(self, size: int, part: str) -> bytes:
        """Return the bytes ``part``, which follow their own length: a number of ``size`` bytes."""
        return self.read(self.number(size, part), part)

    def finish(self, part: str) -> None:
        """Raise ``LayoutError`` if unread bytes are left. ``part`` names the layout's last part."""
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
                raise ValueError("invalid DER length")
            begin, length = begin + octets, int.from_bytes(content[begin : begin + octets])
            if length < _LONG or length.bit_length() <= 8 * (octets - 1):
                raise ValueError("invalid DER length: it has more octets than necessary")
        tag, at = content[at], begin + length
        if at > len(content):
            raise ValueError("truncated DER element")
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
