"""A route of the Client API as data: the requirements that are checked before the body is read.

The authorization tests are generated from the tables of routes, so a route without a test fails.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.coordinator import Engine, Operation, View
from keyhouse.manifest import FeatureGate
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import LogBody, LogText
from keyhouse.server.client_api.public_log import PublicLogHandlers
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.services.activation_outcomes import Refusals
from keyhouse.server.services.manifests import FirstManifest, Preparation, Updates
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.quotes import Quotes
from keyhouse.server.services.recovery import RecoverySession

INLINE: Final = 1024
"""Bodies up to this size are decoded on the event loop, in microseconds; others in a thread."""


NO_BODY: Final = 64 * 1024
"""Largest body of a write that needs no body, such as a cancellation. The body is ignored."""


class UseCases(msgspec.Struct, frozen=True):
    """The use cases and tables that handlers of routes call."""

    engine: Engine
    answers: Answers
    preparation: Preparation
    first_manifest: FirstManifest
    updates: Updates
    recovery: RecoverySession
    quotes: Quotes
    quote_checks: QuoteChecks
    public_log: PublicLogHandlers
    refusals: Refusals
    log_body: LogBody = msgspec.field(default_factory=LogBody)
    log_text: LogText = msgspec.field(default_factory=LogText)


Read = Callable[[UseCases, View, Head], Answer | Admission]
"""Answers at once from a single view, without a body and without a task."""

Write = Callable[[UseCases, Head, bytes], Awaitable[Answer]]
"""Answers after its body is complete, and may wait for the engine."""


class Caller(StrEnum):
    """The kind of certificate that a route requires."""

    ANYBODY = "anybody"
    USER = "user"
    MARBLE = "marble"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A method on a path. A route has exactly one handler: ``read`` or ``write``.

    ``gate``: the feature gate that the manifest must enable for this route, or None.
    """

    method: str
    path: str
    operation: Operation
    # A regular expression for the last part of the path, the placeholder in braces.
    grammar: str = ""
    caller: Caller = Caller.ANYBODY
    gate: FeatureGate | None = None
    read: Read | None = None
    write: Write | None = None
    # In bytes.
    body_limit: int = NO_BODY
    # Whether each success is a record in the journal, and each refusal changes nothing.
    appends: bool = False


def get(
    path: str,
    operation: Operation,
    read: Read,
    caller: Caller = Caller.ANYBODY,
    *,
    grammar: str = "",
) -> Route:
    """Return the route of a read. ``caller``: the certificate that the route requires.

    ``grammar``: the regular expression for the placeholder at the end of ``path``.
    """
    return Route(
        method="GET", path=path, operation=operation, read=read, caller=caller, grammar=grammar
    )


def post(
    path: str,
    operation: Operation,
    write: Write,
    caller: Caller = Caller.ANYBODY,
    *,
    gate: FeatureGate | None = None,
    limit: int = NO_BODY,
    appends: bool = False,
) -> Route:
    """Return the route of a write with a body of at most ``limit`` bytes.

    ``caller``: the certificate that the route requires. ``gate``: the feature gate that the
    manifest must enable, or None. ``appends``: each success appends a record to the journal, and
    each refusal changes nothing.
    """
    return Route(
        method="POST",
        path=path,
        operation=operation,
        write=write,
        caller=caller,
        gate=gate,
        body_limit=limit,
        appends=appends,
    )


def user_of(head: Head) -> bytes:
    """Return the DER of the user's certificate. The route has checked that there is one."""
    assert head.identity is not None  # noqa: S101 see above
    return head.identity
