"""DER, one level at a time, for what no library reads within our bounds."""

from collections.abc import Iterator
from typing import Final

__all__ = ["der_elements"]

_LONG: Final = 0x80
_MOST_LENGTH_BYTES: Final = 4


def der_elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element in ``content``, in order.

    Tags have one byte. Raises ``ValueError`` where an element is not whole. Source: X.690, 8.1.
    """
    at = 0
    while at < len(content):
        begin = at + 2
        length = int.from_bytes(content[at + 1 : begin])
        if length & _LONG:
            octets = length ^ _LONG
            if not 0 < octets <= _MOST_LENGTH_BYTES:
                raise ValueError("a length that DER does not have here")
            begin, length = begin + octets, int.from_bytes(content[begin : begin + octets])
        tag, at = content[at], begin + length
        if at > len(content):
            raise ValueError("cut off")
        yield tag, content[begin:at]
