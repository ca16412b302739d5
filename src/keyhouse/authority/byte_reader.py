"""Reading a binary layout from its beginning to its end, and no byte further."""

__all__ = ["ByteReader"]


class ByteReader:
    """A position in bytes that only moves forward; ``ValueError`` where there are too few left."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.position = 0

    def take(self, length: int) -> bytes:
        """Return the next ``length`` bytes."""
        end = self.position + length
        if end > len(self._raw):
            raise ValueError("cut off")
        value = self._raw[self.position : end]
        self.position = end
        return value

    def integer(self, length: int) -> int:
        """Return the next ``length`` bytes as an unsigned big-endian integer."""
        return int.from_bytes(self.take(length))

    def framed(self) -> bytes:
        """Return bytes that have their length in 4 bytes in front."""
        return self.take(self.integer(4))

    def end(self) -> None:
        """Raise ``ValueError`` unless all bytes were read."""
        if self.position != len(self._raw):
            raise ValueError("bytes after the end")
