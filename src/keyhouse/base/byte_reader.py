"""Reads a binary layout from the first byte to the last."""

from typing import Literal


class LayoutError(ValueError):
    """The bytes do not have the layout. The error names the part, and shows none of the bytes."""


class ByteReader:
    """Reads ``raw`` from start to end. Errors name the ``part`` that a call reads."""

    def __init__(self, raw: bytes, byteorder: Literal["big", "little"]) -> None:
        self._raw = raw
        self._byteorder = byteorder
        self.position = 0

    def take(self, length: int, part: str) -> bytes:
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
        return int.from_bytes(self.take(length, part), self._byteorder)

    def framed(self, size: int, part: str) -> bytes:
        """Return the bytes ``part``, which follow their own length: a number of ``size`` bytes."""
        return self.take(self.number(size, part), part)

    def finish(self, part: str) -> None:
        """Raise ``LayoutError`` if unread bytes are left. ``part`` names the layout's last part."""
        if left := len(self._raw) - self.position:
            raise LayoutError(f"{left} bytes follow the {part}")
