"""Object identifiers, from arcs or dots to the library's form."""

from collections.abc import Sequence
from typing import Final

from cryptography import x509

from keyhouse.wire import workload_api

__all__ = ["MARBLE_TYPE", "arcs", "from_arcs", "from_dots"]

MARBLE_TYPE: Final = x509.ObjectIdentifier(workload_api.MARBLE_TYPE)

_MOST: Final = 2**31


def from_arcs(numbers: Sequence[int]) -> x509.ObjectIdentifier:
    """Return the identifier of ``(2, 5, 4, 3)``; ``ValueError`` if there is none.

    Arcs beyond 31 bits are refused: Go, for one, reads no certificate that has one.
    """
    if any(number >= _MOST for number in numbers):
        raise ValueError("an arc beyond 31 bits")
    return x509.ObjectIdentifier(".".join(str(number) for number in numbers))


def from_dots(text: str) -> x509.ObjectIdentifier:
    """Return the identifier of ``2.5.4.3``; ``ValueError`` if there is none."""
    return x509.ObjectIdentifier(text)


def arcs(identifier: x509.ObjectIdentifier) -> tuple[int, ...]:
    """Return the arcs of an identifier."""
    return tuple(int(arc) for arc in identifier.dotted_string.split("."))
