"""Writes the few DER values of which Intel's certificate extension consists (X.690)."""

from keyhouse.wire.der_elements import element

__all__ = ["enumerated", "object_id", "octets", "sequence"]

_CONTINUED = 0x80


def sequence(*parts: bytes) -> bytes:
    """Return a SEQUENCE of encoded parts."""
    return element(0x30, *parts)


def octets(content: bytes) -> bytes:
    """Return an OCTET STRING."""
    return element(0x04, content)


def enumerated(number: int) -> bytes:
    """Return an ENUMERATED value below 128."""
    return element(0x0A, bytes([number]))


def object_id(dotted: str) -> bytes:
    """Return an OBJECT IDENTIFIER."""
    first, second, *others = map(int, dotted.split("."))
    return element(0x06, b"".join(_arc(arc) for arc in (40 * first + second, *others)))


def _arc(arc: int) -> bytes:
    groups = [arc & 0x7F]
    while arc := arc >> 7:
        groups.append(arc & 0x7F | _CONTINUED)
    return bytes(reversed(groups))
