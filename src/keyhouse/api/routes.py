"""Every path and method of the Client API, as data: what each needs before its body is read.

The authorization tests are generated from this table, so a route without a row there fails.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.api.exchange import Admission, Answer, Head
from keyhouse.coordinator import Operation
from keyhouse.manifest import FeatureGate

if TYPE_CHECKING:
    from keyhouse.api.service import Service
    from keyhouse.coordinator import View

__all__ = ["NO_BODY", "Caller", "Read", "Route", "Table", "Write"]

Read = Callable[["Service", "View", Head], Answer | Admission]
"""Answers from one view, at once: no body, no task."""

Write = Callable[["Service", Head, bytes], Awaitable[Answer]]
"""Answers after its body was read, and waits for the engine."""

NO_BODY: Final = 64 * 1024
"""Bytes that a request may send although it needs no body; they are not looked at."""


class Caller(StrEnum):
    """Whose certificate a route asks for."""

    ANYBODY = "anybody"
    USER = "user"
    MARBLE = "marble"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path: exactly one of ``read`` and ``write`` answers it."""

    method: str
    path: str
    operation: Operation
    caller: Caller = Caller.ANYBODY
    gate: FeatureGate | None = None
    read: Read | None = None
    write: Write | None = None
    body_limit: int = NO_BODY  # bytes


class Table:
    """Finds a route by method and path, exactly."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self.by_target: Final[Mapping[tuple[str, str], Route]] = MappingProxyType(
            {(route.method, route.path): route for route in self.routes}
        )

    def methods(self, path: str) -> tuple[str, ...]:
        """Return the methods that ``path`` has; none for an unknown path."""
        return tuple(sorted(route.method for route in self.routes if route.path == path))
