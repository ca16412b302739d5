"""Writes the few DER values of which Intel's certificate extension consists (X.690)."""

__all__ = ["enumerated", "integer", "object_id", "octets", "sequence"]

_CONTINUED = 0x80


def sequence(*parts: bytes) -> bytes:
    """Return a SEQUENCE of encoded parts."""
    return _value(0x30, b"".join(parts))


def octets(content: bytes) -> bytes:
    """Return an OCTET STRING."""
    return _value(0x04, content)


def integer(number: int) -> bytes:
    """Return an INTEGER that is not negative."""
    return _value(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def enumerated(number: int) -> bytes:
    """Return an ENUMERATED value below 128."""
    return _value(0x0A, bytes([number]))


def object_id(dotted: str) -> bytes:
    """Return an OBJECT IDENTIFIER."""
    first, second, *others = map(int, dotted.split("."))
    return _value(0x06, b"".join(_arc(arc) for arc in (40 * first + second, *others)))


def _arc(arc: int) -> bytes:
    groups = [arc & 0x7F]
    while arc := arc >> 7:
        groups.append(arc & 0x7F | _CONTINUED)
    return bytes(reversed(groups))


def _value(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < _CONTINUED:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, _CONTINUED | size]) + length.to_bytes(size, "big") + content
