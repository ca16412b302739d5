"""The interface between HTTP and the routes: the head of a request in, an answer out.

Routes do not know the server, and the server does not know the routes. The protocol reads a head
and calls ``Application.admit`` before it reads the body. ``admit`` checks path, identity and
feature gates, and returns an ``Admission`` or an answer. The protocol reads the body only after an
``Admission``, up to the limit of the admission, and runs the admission with the body.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar, TypeVarTuple

import msgspec

# The statuses that the code compares or sends itself; see ``net.error_mapping`` for all others.
BAD_REQUEST: Final = 400
INTERNAL_ERROR: Final = 500
UNAVAILABLE: Final = 503

T = TypeVar("T")
Values = TypeVarTuple("Values")


class Head(msgspec.Struct, frozen=True):
    """The facts of a request before its body.

    ``method`` is in upper case as received: any method of HTTP. ``path`` begins with ``/`` and is
    percent-decoded UTF-8. ``query`` is the received text after the first ``?``, or empty.
    ``identity`` is the DER of the certificate whose key signed the TLS handshake, or None. The
    certificate is read once per connection, and its chain is never verified.
    """

    method: str
    path: str
    query: bytes
    identity: bytes | None


class PlacedHead(Head, frozen=True):
    """A head with the value of ``Keyhouse-At-Least``, for applications that use it.

    ``at_least`` joins several values by commas. ``plain`` is the head without the value.
    """

    at_least: bytes
    plain: Head


class Answer(msgspec.Struct, frozen=True):
    """A complete answer.

    ``headers`` contains only additional fields, with names in lower case. The protocol adds
    content-type (``application/json``), content-length, x-content-type-options, cache-control and
    connection. If ``headers`` contains content-type or cache-control, the protocol adds no second
    field.
    """

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Admission(msgspec.Struct, frozen=True):
    """The permission to send the body: at most ``body_limit`` bytes.

    ``run`` receives the whole body on the event loop's thread. It returns the answer (reads,
    without a task) or an awaitable (writes that wait for the engine). The awaitable is cancelled
    when the client disconnects. Work that must not stop half-way has to be shielded inside ``run``.
    """

    body_limit: int
    run: Callable[[bytes], Answer | Awaitable[Answer]]
    # The caller is a known user: bodies of anonymous clients leave room for such bodies.
    known: bool = False
    # Whether each success is a record in the journal, and each refusal changes nothing. Then
    # ``run`` returns a coroutine that awaits only futures, because it has no task.
    appends: bool = False


class ProtocolRefusal(msgspec.Struct, frozen=True):
    """A refusal of a request by the HTTP server, before any route receives the request.

    ``status`` is one of 400, 408, 413, 414, 415, 431, 501, 503. ``part`` names the wrong part:
    ``body``, ``query``, ``headers``, ``connection``, or "" for the whole request. ``message`` and
    ``hint`` are for people. ``path`` is the decoded path, or "" if unknown. The path selects the
    version of the interface, because each version has its own form of errors.
    """

    status: int
    part: str
    message: str
    hint: str = ""
    path: str = ""


class Deferred(Generic[T]):
    """A decision of the application that comes later.

    This is not a future: one turn of the event loop can decide many requests, and each future would
    need one more callback.
    """

    __slots__ = ("_callback",)

    def __init__(self) -> None:
        self._callback: Callable[[T | Exception], None] | None = None

    def then(self, callback: Callable[[T | Exception], None]) -> None:
        """Store ``callback``: a single call receives the decision or the error."""
        self._callback = callback

    def cancel(self) -> None:
        """Drop the callback, because the connection has ended."""
        self._callback = None

    def resolve(self, outcome_of: Callable[[*Values], T], *values: *Values) -> None:
        """Call the callback with the result of ``outcome_of(*values)``, or with its error.

        Do nothing without a callback: the connection has ended.
        """
        callback, self._callback = self._callback, None
        if callback is None:
            return
        outcome: T | Exception
        try:
            outcome = outcome_of(*values)
        except Exception as error:  # noqa: BLE001 - it belongs to who waits
            outcome = error
        callback(outcome)


class Application(Protocol):
    """The application behind an HTTP server. Both methods return at once.

    If the decision needs time, they return a ``Deferred``, and decide later.
    """

    def admit(self, head: Head) -> Answer | Admission | Deferred[Answer | Admission]:
        """Decide on a request by its head. After an ``Answer``, its body is never read."""
        ...

    def refuse(self, refusal: ProtocolRefusal) -> Answer | Deferred[Answer]:
        """Return the answer to a request that the HTTP server refuses.

        The connection closes after this answer.
        """
        ...
