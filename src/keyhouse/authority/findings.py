"""Collecting every problem of one value, each with its place."""

from collections.abc import Callable
from typing import TypeVar

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.x509 import DuplicateExtension, InvalidVersion, UnsupportedGeneralNameType

from keyhouse.base.errors import Problem

__all__ = ["LIBRARY_REFUSALS", "Findings"]

T = TypeVar("T")
V = TypeVar("V")

LIBRARY_REFUSALS = (
    ValueError,
    TypeError,
    OverflowError,
    UnsupportedAlgorithm,
    InternalError,
    InvalidVersion,
    DuplicateExtension,
    UnsupportedGeneralNameType,
)
"""What the certificate library raises on content that it does not take."""


class Findings:
    """A list of problems that grows while a value is built."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def add(self, at: str, problem: str, hint: str = "") -> None:
        """Note one problem."""
        self._problems.append(Problem(at, problem, hint))

    def extend(self, problems: tuple[Problem, ...]) -> None:
        """Note the problems that another step found."""
        self._problems.extend(problems)

    def attempt(
        self, make: Callable[[V], T], value: V, at: str, problem: str, hint: str = ""
    ) -> T | None:
        """Return ``make(value)``; if the library refuses the value, note the problem instead.

        The library's own words stay here: they may repeat the value.
        """
        try:
            return make(value)
        except LIBRARY_REFUSALS:
            self.add(at, problem, hint)
            return None

    def sorted(self) -> tuple[Problem, ...]:
        """Return what was noted, sorted by place, without repetitions."""
        return tuple(sorted(set(self._problems)))
