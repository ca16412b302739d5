"""Replaces errors of the certificate library by problems with our texts.

The library's texts may repeat values of the manifest.
"""

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
    """Return ``make(value)``. If the library refuses ``value``, add a problem and return None.

    ``place``, ``problem`` and ``hint`` describe this problem.
    """
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
    """Yield place and result of ``make`` for each of ``values``, a list ``field`` of a template.

    A value that the library refuses is left out, and a problem is added to ``findings``.
    """
    for position, value in enumerate(values):
        here = ("Cert", field, position)
        made = attempt(findings, make, value, here, problem, hint)
        if made is not None:
            yield here, made
