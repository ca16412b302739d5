"""Every path and method of the Client API, as data: what each needs before its body is read.

The authorization tests are generated from this table, so a route without a row there fails.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.coordinator import Operation
from keyhouse.manifest import FeatureGate
from keyhouse.server.http.exchange import Admission, Answer, Head

if TYPE_CHECKING:
    from keyhouse.coordinator import View
    from keyhouse.server.client_api.service import Service

__all__ = ["NO_BODY", "Caller", "Read", "Route", "Table", "Write", "get", "post"]

Read = Callable[["Service", "View", Head], Answer | Admission]
"""Answers from one view, at once: no body, no task."""

Write = Callable[["Service", Head, bytes], Awaitable[Answer]]
"""Answers after its body was read, and waits for the engine."""

NO_BODY: Final = 64 * 1024
"""Bytes of a write's body that needs none, as that of a cancellation; they are not looked at."""


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


def get(path: str, operation: Operation, read: Read, caller: Caller = Caller.ANYBODY) -> Route:
    """Return the route of a read."""
    return Route(method="GET", path=path, operation=operation, read=read, caller=caller)


def post(
    path: str,
    operation: Operation,
    write: Write,
    caller: Caller = Caller.ANYBODY,
    *,
    gate: FeatureGate | None = None,
    limit: int = NO_BODY,
) -> Route:
    """Return the route of a write, whose body has at most ``limit`` bytes."""
    return Route(
        method="POST",
        path=path,
        operation=operation,
        write=write,
        caller=caller,
        gate=gate,
        body_limit=limit,
    )
