"""The steps of an operation, as effects that a connection carries out.

An operation is a generator. It yields effects and is sent their results, or has their errors thrown
in; what it returns is the result. It knows neither sockets nor threads nor event loops, so it is
written once: ``http.connection`` carries the effects out with blocking calls, and
``http.connection_async`` on an event loop.

    Request   one HTTP request, tried once           returns an Answer; raises as a connection does
    Work      a function that may block (files, CPU)  returns and raises what the function does
    Pause     wait before trying again               returns nothing
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

import msgspec

from keyhouse.base.secret import Secret

T = TypeVar("T")

_LATER: Final = frozenset({429, 503})
_METHOD_NOT_ALLOWED: Final = 405


class Request(msgspec.Struct, frozen=True):
    """One request. ``body`` may hold secrets, so it is never shown."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Secret | None = None  # JSON
    maximum: int = 1 << 20  # bytes that the answer's body may have
    deadline: float = 1e9  # of ``time.monotonic()``: none
    at_least: str = ""  # the header Keyhouse-At-Least: the newest place that is known


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request."""

    http_status: int
    body: bytes
    state: str | None = None  # the header Keyhouse-State
    retry_after: str = ""  # the header Retry-After
    log: str | None = None  # the header Keyhouse-Log

    @property
    def is_put_off(self) -> bool:
        """Whether the coordinator asks to try again later."""
        return self.http_status in _LATER

    @property
    def is_of_older(self) -> bool:
        """Whether the coordinator is older than the call, and does not know it."""
        return self.http_status == _METHOD_NOT_ALLOWED

    def __repr__(self) -> str:
        return f"<Answer {self.http_status} of {len(self.body)} bytes>"


class Work(Generic[T]):
    """A function that may block."""

    def __init__(self, run: Callable[[], T]) -> None:
        self.run = run


class Pause(msgspec.Struct, frozen=True):
    """A wait of at most ``seconds``, at least half of them: clients must not retry in step."""

    seconds: float


Effect = Request | Work[Any] | Pause
Steps = Generator[Effect, Any, T]


def ask(request: Request) -> Steps[Answer]:
    """Send ``request`` once and return its answer."""
    answer: Answer = yield request
    return answer


def work(run: Callable[[], T]) -> Steps[T]:
    """Return what ``run`` returns."""
    result: T = yield Work(run)
    return result


def pause(seconds: float) -> Steps[None]:
    """Wait."""
    yield Pause(seconds)
