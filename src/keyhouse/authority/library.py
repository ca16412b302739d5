"""What the certificate library refuses, in our words: its own may repeat the value."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.x509 import DuplicateExtension, InvalidVersion, UnsupportedGeneralNameType

from keyhouse.base.findings import Findings
from keyhouse.base.printable import Place

T = TypeVar("T")
V = TypeVar("V")

LIBRARY_REFUSALS: Final = (
    ValueError,
    TypeError,
    OverflowError,
    UnsupportedAlgorithm,
    InternalError,
    InvalidVersion,
    DuplicateExtension,
    UnsupportedGeneralNameType,
)
"""What the certificate library raises for content that it does not accept."""


def attempt(
    findings: Findings, make: Callable[[V], T], value: V, place: Place, problem: str, hint: str = ""
) -> T | None:
    """Return ``make(value)``; None if the library refuses the value, which is noted."""
    try:
        return make(value)
    except LIBRARY_REFUSALS:
        findings.refuse(place, problem, hint)
        return None


def attempt_each(
    findings: Findings,
    make: Callable[[V], T],
    values: Iterable[V],
    field: str,
    problem: str,
    hint: str,
) -> Iterator[tuple[Place, T]]:
    """Yield what ``make`` returns for each value of a template's field, with the value's place.

    Values that the library refuses are noted, and left out.
    """
    for position, value in enumerate(values):
        here = ("Cert", field, position)
        made = attempt(findings, make, value, here, problem, hint)
        if made is not None:
            yield here, made
