"""One function between HTTP and the routes: a request's head in, an answer out.

Routes know no server and the server knows no routes. The protocol parses a head and asks
``Application.admit`` at once, before a byte of the body is taken: paths, identity and gates are
judged there. Only an ``Admission`` lets the body in, up to its own limit, and is then run with it.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple

import msgspec

T = TypeVar("T")
Values = TypeVarTuple("Values")


class Head(msgspec.Struct, frozen=True):
    """What is known of a request before its body.

    ``method`` is upper case as received (any method that HTTP knows). ``path`` begins with ``/``
    and is percent-decoded UTF-8; ``query`` is everything after the first ``?`` as received, empty
    without one. ``identity`` is the DER of the certificate whose key signed the TLS handshake, or
    None: taken once per connection and never verified.
    """

    method: str
    path: str
    query: bytes
    identity: bytes | None


class PlacedHead(Head, frozen=True):
    """A head with ``Keyhouse-At-Least``, where that is looked at.

    ``at_least`` is its value, of several all with commas between them; ``plain`` the head without.
    """

    at_least: bytes
    plain: Head


class Answer(msgspec.Struct, frozen=True):
    """A complete answer.

    ``headers`` are extra fields only, names in lower case. The protocol itself adds
    content-type (``application/json``), content-length, x-content-type-options, cache-control and
    connection; it leaves out its own of the first and of cache-control when ``headers`` has one.
    """

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Admission(msgspec.Struct, frozen=True):
    """Leave to send the body: at most ``body_limit`` bytes of it.

    ``run`` gets the whole body and answers at once (reads: no task is created) or returns an
    awaitable (writes, which wait for the engine; see ``Later``). It is called on the event loop's
    thread. The awaitable is cancelled when its client has gone: what must not stop half-way is
    shielded by its owner.
    """

    body_limit: int
    run: Callable[[bytes], Answer | Awaitable[Answer]]
    known: bool = False  # the caller was identified: anonymous clients' bodies leave room
    appends: bool = False  # success is a record in the journal, always; a refusal changes nothing


Conclude = Callable[[Future[Any]], Answer | Awaitable[Answer]]


class Later(msgspec.Struct, frozen=True):
    """An answer that ``conclude`` makes of ``done`` once that is done. No task waits for it.

    For a write that waits for one future and nothing else. ``conclude`` may return an awaitable, if
    the write has to be tried again.
    """

    done: Future[Any]
    conclude: Conclude

    def __await__(self) -> Generator[Any, None, Answer]:
        """Return the answer, in a task."""
        return self._awaited().__await__()

    async def _awaited(self) -> Answer:
        with suppress(Exception):  # it is for ``conclude``
            await self.done
        outcome = self.conclude(self.done)
        return outcome if isinstance(outcome, Answer) else await outcome


class Refusal(msgspec.Struct, frozen=True):
    """What the protocol itself refuses.

    ``status`` is one of 400, 408, 413, 414, 415, 431, 501, 503; ``part`` names the part at fault:
    ``body``, ``query``, ``headers``, ``connection``, or empty for the request as a whole.
    ``path`` is the request's decoded path where it is known, else empty: versions of the
    interface word their failures differently.
    """

    status: int
    part: str
    message: str
    hint: str = ""
    path: str = ""


class Deferred(Generic[T]):
    """What an application cannot say yet.

    Not a future: many are told in one turn of the event loop, and each would be one more callback.
    """

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: Callable[[T | Exception], None] | None = None

    def then(self, told: Callable[[T | Exception], None]) -> None:
        """Have ``told`` called with what is said, or with why that failed, once."""
        self._told = told

    def cancel(self) -> None:
        """Wait no more."""
        self._told = None

    def tell(self, say: Callable[[*Values], T], *values: *Values) -> None:
        """Say what ``say`` returns of ``values``; it is not called if nobody waits."""
        told, self._told = self._told, None
        if told is None:
            return
        said: T | Exception
        try:
            said = say(*values)
        except Exception as error:  # noqa: BLE001 - it belongs to who waits
            said = error
        told(said)


class Application(Protocol):
    """What answers. Both methods return at once and never raise on purpose.

    Where that cannot be told yet they say it later, unless the client has gone.
    """

    def admit(self, head: Head) -> Answer | Admission | Deferred[Answer | Admission]:
        """Judge a request by its head. An ``Answer`` ends it: its body is never read."""
        ...

    def refuse(self, refusal: Refusal) -> Answer | Deferred[Answer]:
        """Word a refusal of the protocol. Extra headers of the answer are kept."""
        ...
