"""Replaces errors of the certificate library (cryptography) by problems with our texts.

The library's texts may repeat values of the manifest.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.x509 import DuplicateExtension, InvalidVersion, UnsupportedGeneralNameType

from keyhouse.base.errors import Findings
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

    ``make`` calls the certificate library. ``place``, ``problem`` and ``hint`` describe the
    problem.
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
    """Yield place and result of ``make`` for each of ``values``, the list in ``Cert.<field>``.

    If the library refuses a value, the value is left out, and a problem with ``problem`` and
    ``hint`` is added to ``findings``.
    """
    for position, value in enumerate(values):
        here = ("Cert", field, position)
        made = attempt(findings, make, value, here, problem, hint)
        if made is not None:
            yield here, made
