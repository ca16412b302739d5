"""Replaces error texts of the certificate library, because its texts may repeat values."""

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
"""The exceptions of the certificate library for content that it does not accept."""


def attempt(
    findings: Findings, make: Callable[[V], T], value: V, place: Place, problem: str, hint: str = ""
) -> T | None:
    """Return ``make(value)``, or None with a finding if the library refuses the value."""
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
    """Yield the result of ``make`` for each value of a template's field, with the value's place.

    A value that the library refuses becomes a finding and is left out.
    """
    for position, value in enumerate(values):
        here = ("Cert", field, position)
        made = attempt(findings, make, value, here, problem, hint)
        if made is not None:
            yield here, made
