"""The steps of an operation, as effects that a connection carries out.

An operation is a generator of effects. The connection carries out each effect, and sends the result
to the generator, or throws the error into the generator. The return value of the generator is the
result of the operation. An operation uses neither sockets nor threads nor event loops, so each
operation is written once.
``http.connection`` carries out the effects with blocking calls, ``http.connection_async`` on an
event loop.

    HttpRequest  one HTTP request, tried once            returns an HttpAnswer, or raises an error
    Work         a function that may block (files, CPU)  returns and raises as the function does
    Pause        wait before a retry                     returns nothing
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

import msgspec

from keyhouse.base.secret import Secret

T = TypeVar("T")

_LATER: Final = frozenset({429, 503})
_METHOD_NOT_ALLOWED: Final = 405  # HTTP status, RFC 9110


class HttpRequest(msgspec.Struct, frozen=True):
    """One request. ``body`` may contain secrets, so the text form of ``body`` hides the bytes."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Secret | None = None  # JSON
    maximum: int = 1 << 20  # of the answer's body, in bytes
    deadline: float = 1e9  # by ``time.monotonic()``; the default means none
    at_least: str = ""  # the header Keyhouse-At-Least: the newest known place


class HttpAnswer(msgspec.Struct, frozen=True):
    """The complete answer of a coordinator to an ``HttpRequest``."""

    http_status: int
    body: bytes
    state: str | None = None  # the header Keyhouse-State
    retry_after: str = ""  # the header Retry-After
    log: str | None = None  # the header Keyhouse-Log

    @property
    def is_deferred(self) -> bool:
        """Whether the coordinator asks for a later retry (HTTP 429, 503)."""
        return self.http_status in _LATER

    @property
    def is_of_older(self) -> bool:
        """Whether the coordinator is an older version without this call (HTTP 405)."""
        return self.http_status == _METHOD_NOT_ALLOWED

    def __repr__(self) -> str:
        return f"<Answer {self.http_status} of {len(self.body)} bytes>"


class Work(Generic[T]):
    """An effect: call a function that may block, such as a read of a file."""

    def __init__(self, run: Callable[[], T]) -> None:
        self.run = run


class Pause(msgspec.Struct, frozen=True):
    """A random wait between half of ``seconds`` and ``seconds``.

    So many clients do not retry at the same time.
    """

    seconds: float


Effect = HttpRequest | Work[Any] | Pause
Steps = Generator[Effect, Any, T]


def send(request: HttpRequest) -> Steps[HttpAnswer]:
    """Send ``request`` once and return its answer."""
    answer: HttpAnswer = yield request
    return answer


def work(run: Callable[[], T]) -> Steps[T]:
    """Run a function that may block, and return its result."""
    result: T = yield Work(run)
    return result


def pause(seconds: float) -> Steps[None]:
    """Wait ``seconds`` before a retry."""
    yield Pause(seconds)
